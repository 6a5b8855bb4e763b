"""What travels through a network when its features are computed: columns, whose products are covariances.

Beside the columns goes what is known exactly: the variance of every pixel until a pooling mixes them, and what Dropout adds
to it. Features of different inputs never have Dropout's part in common, so it is in no column. `Sketch` says how features go
through an activation.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..activations import Activation
from ..numerics import safe_divide, safe_sqrt
from ..storage.module import ReprAsCode
from .columns import Columns, join

Drawn: TypeAlias = PyTree[Array]  # the random numbers of a sketch

_WORK = 2**30  # multiplications for an image and a layer that are not too many,
_LAST = 1024  # and how many times the square of the columns at the end are not,
_SIZE = 4  # if the matrix has no more than so many times that


class Point(NamedTuple):
    """The points that an activation is given: vectors, one over their lengths, standard deviations and shares.

    The cosine of two points is share share' (direction . direction'). A share is below 1 where Dropout came before, because
    its masks are independent for different inputs; None is 1.
    """

    vector: Float[Array, "*points columns"]
    scale: Float[Array, "*points"]
    std: Float[Array, "*points"]
    share: Float[Array, "*points"] | None

    @property
    def direction(self) -> Array:
        """The unit vector."""
        wide = self.vector.astype(self.scale.dtype)
        return (wide * self.scale[..., None]).astype(self.vector.dtype)


class Widths(NamedTuple):
    """How many columns an activation may make.

    Where columns may grow, `random` new ones join the exact ones of the layers before. Where they may not, there are
    `random` in all, and direct sums are folded to that number. For images, `random` is the number at the resolution of the
    last activation, which sees `pixels`, and earlier ones make fewer: most of the time goes where pixels are many, and most
    of the error comes from the last columns.
    """

    random: int
    grows: bool
    pixels: int | None = None
    least: int = 256  # columns where pixels are many, if there are as many at all

    def at(self, spatial: tuple[int, ...]) -> int:
        """Columns at this resolution: inversely proportional to the number of pixels, and never fewer than `least`."""
        if self.pixels is None or not spatial:
            return self.random
        share = max(1, prod(spatial) // self.pixels)
        return min(self.random, max(self.random // share, self.least))


class FeatureContext(NamedTuple):
    """What a feature map wants: the same in front of every layer."""

    wants_ntk: bool
    sketch: "Sketch"  # the kind
    widths: Widths


class Features(eqx.Module):
    """The features of a batch after some layer; see the module."""

    phi: Columns  # of the NNGP
    psi: Columns | None  # of the NTK; None: not wanted, or 0, as no weights have come yet
    shared: Float[Array, " mixed"] | None  # how often each mixed column of phi is in the NTK, beside psi; None: never
    variance: Float[Array, "*points"] | None  # exact, of every pixel; None: that of the columns and what Dropout added
    added: Float[Array, "*points"] | None  # by Dropout; None: nothing
    channels: int | None = eqx.field(static=True)  # of the input or a layer with `width=`; None: not said
    context: FeatureContext = eqx.field(static=True)

    @property
    def wants_ntk(self) -> bool:
        """Whether the columns of the NTK are wanted."""
        return self.context.wants_ntk

    @property
    def sketch(self) -> "Sketch":
        """The kind of sketch."""
        return self.context.sketch

    @property
    def widths(self) -> Widths:
        """How many columns activations may make."""
        return self.context.widths

    @property
    def room(self) -> int:
        """How many columns an activation may make here."""
        return self.widths.at(self.spatial)

    @property
    def cap(self) -> int | None:
        """How many columns a direct sum may have; None: any number."""
        return self.room if self.sketch.folds() and not self.widths.grows else None

    def affords(self, inputs: int) -> bool:
        """Whether a patch of `inputs` columns may be multiplied by a dense matrix, which is more accurate than folding it.

        It may where this takes some ten milliseconds of a CPU, or little beside the matrix of the last layer's patch, as
        where pixels become fewer from layer to layer. It may not with the NTK, whose columns hold those of patches too, so
        that these must be few.
        """
        if not self.spatial or self.widths.grows or self.wants_ntk or inputs <= self.room:
            return False
        size, last = inputs * self.room, self.widths.random**2
        work = prod(self.spatial) * size
        return work <= _WORK or (size <= _SIZE * last and work <= _LAST * last)

    @property
    def spatial(self) -> tuple[int, ...]:
        """The sizes of the spatial axes."""
        return self.phi.kept.shape[1:-1]

    def total_variance(self) -> Float[Array, "*points"]:
        """The variance of every pixel."""
        if self.variance is not None:
            return self.variance
        squared = self.phi.squared()
        return squared if self.added is None else squared + self.added

    def point(self) -> Point:
        """The points that an activation is given."""
        length = safe_sqrt(self.phi.squared())
        variance = self.total_variance()
        share = None
        if self.added is not None:
            share = safe_sqrt(safe_divide(jnp.maximum(variance - self.added, 0), variance))
        return Point(self.phi.all(), safe_divide(jnp.ones_like(length), length), safe_sqrt(variance), share)

    def plain(self) -> "Features":
        """These features with all columns of the NTK in psi."""
        if self.shared is None or self.psi is None:
            return self
        own = Columns(self.phi.kept[..., :0], self.phi.mixed * safe_sqrt(self.shared).astype(self.phi.mixed.dtype))
        return replace(self, psi=join(self.psi, own), shared=None)

    def map(self, fn: Callable[[Columns], Columns], **changes: Any) -> "Features":
        """fn of both kinds of columns."""
        return replace(self, phi=fn(self.phi), psi=None if self.psi is None else fn(self.psi), **changes)


class Sketch(ReprAsCode):
    """A kind of sketch: how features go through an activation."""

    def folds(self) -> bool:
        """Whether direct sums, as over the patch of a convolution, are folded where they grow too wide."""
        return True

    def takes_whole_patches(self) -> bool:
        """Whether the patch of a convolution is better left as it is where a dense matrix of it is affordable."""
        return False

    @abstractmethod
    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Drawn:
        """The random numbers for features of these shapes; the features are those of a few random inputs."""

    @abstractmethod
    def step(self, drawn: Drawn, act: Activation, features: Features) -> Features:
        """The columns of k(x, y), and of Theta(x, y) k'(x, y) where those of Theta are given."""
