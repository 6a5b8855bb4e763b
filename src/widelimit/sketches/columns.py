"""What travels through a network when its features are computed: columns, whose products are covariances.

Beside the columns goes what is known exactly: the variance of every pixel until a pooling mixes them, and what Dropout adds
to it. Features of different inputs never have Dropout's part in common, so it is in no column.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..numerics import safe_divide, safe_sqrt
from .linear_maps import Projection, draw_signs, folded, projection

_WORK = 2**30  # multiplications for an image and a layer that are not too many,
_LAST = 1024  # and how many times the square of the columns at the end are not,
_SIZE = 4  # if the matrix has no more than so many times that

STATIC = {"static": True}  # not traced: part of what JAX compiles for


class Columns(eqx.Module):
    """Features of which few, the `kept` ones, are carried on as they are, and many, the `mixed` ones, may be folded.

    A constant, a bias or the pixels of the input sit in a few columns with all their weight: folded, they would meet
    themselves. What a random projection made is spread over all of its columns.
    """

    kept: Array
    mixed: Array

    @property
    def count(self) -> int:
        """How many columns there are."""
        return self.kept.shape[-1] + self.mixed.shape[-1]

    def all(self) -> Array:
        """One array."""
        parts = [part for part in (self.kept, self.mixed) if part.shape[-1]]
        return jnp.concatenate(parts, -1) if parts else self.kept

    def map(self, fn: Callable[[Array], Array]) -> "Columns":
        """fn of both parts, for what acts on each column by itself."""
        return Columns(fn(self.kept), fn(self.mixed))

    def scaled(self, factor: Any) -> "Columns":
        """Times a number, or one for every point."""
        factor = jnp.asarray(factor, self.kept.dtype)
        return self.map(lambda x: x * (factor[..., None] if factor.ndim else factor))

    def squared(self) -> Array:
        """The product of every point with itself, in float32 at least."""
        x = self.all()  # as one array, which whoever asks for lengths needs too
        return jnp.sum(x.astype(jnp.promote_types(x.dtype, jnp.float32)) ** 2, -1)


def join(*parts: Columns) -> Columns:
    """The direct sum."""
    return Columns(
        jnp.concatenate([part.kept for part in parts], -1), jnp.concatenate([part.mixed for part in parts], -1)
    )


def kept(x: Array) -> Columns:
    """Columns that are all kept."""
    return Columns(x, jnp.zeros((*x.shape[:-1], 0), x.dtype))


class Point(NamedTuple):
    """What an activation is given: a vector, one over its length, a standard deviation, and the share that the vector tells.

    The cosine of two points is share share' (direction . direction'); a share below 1 comes of Dropout, whose masks are
    independent for different inputs. None is 1.
    """

    vector: Array
    scale: Array
    std: Array
    share: Array | None

    @property
    def direction(self) -> Array:
        """The unit vector."""
        wide = self.vector.astype(self.scale.dtype)
        return (wide * self.scale[..., None]).astype(self.vector.dtype)


class Widths(NamedTuple):
    """How many columns an activation may make.

    Where columns may grow, `random` new ones join the exact ones of the layers before; where they may not, there are
    `random` in all, and direct sums are folded to as many. Images have `random` where an activation sees the fewest pixels,
    `pixels`, and fewer where it sees more: most of the time goes where pixels are many, most of the error comes from where
    columns are read.
    """

    random: int
    grows: bool
    pixels: int | None = None
    least: int = 256  # columns where pixels are many, if there are as many at all

    def at(self, spatial: tuple[int, ...]) -> int:
        """How many for so many pixels: as many times fewer as these are more, but `least` at least."""
        if self.pixels is None or not spatial:
            return self.random
        share = max(1, prod(spatial) // self.pixels)
        return min(self.random, max(self.random // share, self.least))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Features:
    """The features of a batch after some layer; see the module."""

    phi: Columns  # of the NNGP
    psi: Columns | None  # of the NTK; None: not asked for, or 0, as no weights have come yet
    shared: Array | None  # how often each mixed column of phi is in the NTK too, beside psi; None: never
    variance: Array | None  # exact, of every pixel; None: that of the columns and what Dropout added
    added: Array | None  # by Dropout; None: nothing
    wants_ntk: bool = field(metadata=STATIC)
    channels: int | None = field(metadata=STATIC)  # of the input or a layer with `width=`
    sketch: Any = field(metadata=STATIC)  # the kind
    widths: Widths = field(metadata=STATIC)

    @property
    def room(self) -> int:
        """How many columns an activation may make here."""
        return self.widths.at(self.spatial)

    @property
    def cap(self) -> int | None:
        """How many columns a direct sum may have; None: any number."""
        return self.room if self.sketch.folds() and not self.widths.grows else None

    def affords(self, inputs: int) -> bool:
        """Whether a dense matrix from so many columns, those of a patch, to those of an activation is worth its work here.

        It takes some ten milliseconds of a CPU; or the matrix is small beside one of a patch of the columns at the end, as
        where pixels become fewer from layer to layer, and so are its pixels. The NTK's columns hold those of patches too,
        which then must be few.
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

    def total_variance(self) -> Array:
        """The variance of every pixel."""
        if self.variance is not None:
            return self.variance
        found = self.phi.squared()
        return found if self.added is None else found + self.added

    def point(self) -> Point:
        """What an activation is given."""
        length = safe_sqrt(self.phi.squared())
        variance = self.total_variance()
        share = None
        if self.added is not None:
            share = safe_sqrt(safe_divide(jnp.maximum(variance - self.added, 0), variance))
        return Point(self.phi.all(), safe_divide(jnp.ones_like(length), length), safe_sqrt(variance), share)

    def plain(self) -> "Features":
        """The same with all columns of the NTK in psi."""
        if self.shared is None or self.psi is None:
            return self
        own = Columns(self.phi.kept[..., :0], self.phi.mixed * safe_sqrt(self.shared).astype(self.phi.mixed.dtype))
        return replace(self, psi=join(self.psi, own), shared=None)

    def map(self, fn: Callable[[Columns], Columns], **changes: Any) -> "Features":
        """fn of both kinds of columns."""
        return replace(self, phi=fn(self.phi), psi=None if self.psi is None else fn(self.psi), **changes)


class DirectSum(eqx.Module):
    """Several equally shaped columns, those of a patch's pixels say, as one: kept side by side, mixed ones folded.

    Kept columns that would become too many are spread over all columns by a projection first.
    """

    spill: Projection | None
    signs: Array | None  # (parts, columns)
    room: int | None = eqx.field(static=True)  # for mixed columns

    def __call__(self, columns: Columns, parts: Callable[[Array], list[Array]]) -> Columns:
        """The direct sum of parts(x), for an array x of columns."""
        if self.spill is not None:
            spread = self.spill(columns.kept) * self.spill.outputs**-0.5
            missing = self.spill.outputs - columns.mixed.shape[-1]
            mixed = jnp.pad(columns.mixed, [(0, 0)] * (spread.ndim - 1) + [(0, missing)])
            columns = Columns(columns.kept[..., :0], spread + mixed)
        side_by_side = jnp.concatenate(parts(columns.kept), -1)
        pieces = parts(columns.mixed)
        if self.signs is None or self.room is None:
            return Columns(side_by_side, jnp.concatenate(pieces, -1))
        signed = [sign.astype(piece.dtype) * piece for sign, piece in zip(self.signs, pieces, strict=True)]
        return Columns(side_by_side, folded(sum(signed[1:], signed[0]), self.room))


def direct_sum(key: PRNGKeyArray, columns: Columns, parts: int, cap: int | None, share: float = 0.25) -> DirectSum:
    """Draw one for so many parts; with `cap` it has no more columns than that, and a `share` of them may be kept."""
    keep, mix = columns.kept.shape[-1], columns.mixed.shape[-1]
    if cap is None or parts * (keep + mix) <= cap:
        return DirectSum(None, None, None)
    key1, key2 = jax.random.split(key)
    spill = None
    if parts * keep > share * cap:
        spill = projection(key1, keep, max(mix, cap))
        keep, mix = 0, max(mix, cap)
    room = max(1, cap - parts * keep)
    if parts * mix <= room:
        return DirectSum(spill, None, None)
    return DirectSum(spill, draw_signs(key2, parts, mix), room)
