"""What travels through a network when its kernel is computed.

Variances come first, pairs after. One pass over the inputs themselves, each with itself, finds the variance of every
pixel before every activation and notes it on a tape; the pass over pairs of inputs reads the two inputs' tapes back. So
a pair costs one covariance array and not three, only activations and LayerNorm see a variance, and the diagonal of a
kernel matrix is the variance recursion itself.

Both passes carry `nngp`, the covariance of two inputs' values in one channel, and `ntk`. Their leading axes run over
pairs of inputs and the last ones over pixels, the same in both inputs: (n, h, w) for n inputs with themselves, and
(n1, n2, h, w) for all pairs. Where a later pooling needs it (`pairs`), every pixel is paired with every other; then the
axes of the second input follow all those of the first, (n, h, w, h, w) or (n1, h, w, n2, h, w), which is the order in
which one matrix product of all pixels of all inputs leaves them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..numerics import ULPS

STATIC = {"static": True}  # not traced: part of what JAX compiles for


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tape:
    """The variances before each activation, of both inputs of every pair.

    While `recording`, an input's own variances are added at the end; otherwise `position` moves along what was recorded.
    """

    entries: tuple[tuple[Array, Array], ...] = ()
    recording: bool = field(default=True, metadata=STATIC)
    position: int = field(default=0, metadata=STATIC)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """The covariances of a batch of pairs after some layer; see the module."""

    nngp: Array
    ntk: Array | None  # None: not asked for, or 0, as no weights have come yet
    tape: Tape
    wants_ntk: bool = field(metadata=STATIC)
    spatial: tuple[int, ...] = field(metadata=STATIC)  # the sizes of the spatial axes
    channels: int | None = field(metadata=STATIC)  # of the input or a layer with `width=`; None: not said
    pairs: bool = field(metadata=STATIC)  # whether every pixel of one input is paired with every pixel of the other
    keep_pairs: bool = field(default=False, metadata=STATIC)  # whether what follows the present layer needs them
    gaussian: bool = field(default=False, metadata=STATIC)  # whether the values are Gaussian, as an activation requires
    weighted: tuple[bool, ...] = field(
        default=(), metadata=STATIC
    )  # whether weights came since each FanOut, last first
    after: str = field(default="the input", metadata=STATIC)  # the last layer, for messages
    ulps: float = field(default=ULPS, metadata=STATIC)  # the rounding error of a cosine, in machine epsilons

    def map(self, fn: Callable[[Array], Array], **changes: Any) -> "State":
        """Apply the same linear map to both kernels."""
        ntk = None if self.ntk is None else fn(self.ntk)
        return replace(self, nngp=fn(self.nngp), ntk=ntk, **changes)

    def diagonal(self) -> "State":
        """Keep only pairs of equal pixels."""
        return self.map(self._equal_pixels, pairs=False) if self.pairs else self

    def _equal_pixels(self, x: Array) -> Array:
        for _ in self.spatial:  # a spatial axis of one input and the same of the other become one, put last
            x = jnp.diagonal(x, axis1=1, axis2=x.ndim - len(self.spatial))
        return x

    def pixel_axes(self, x: Array) -> list[tuple[int, ...]]:
        """For each spatial axis, where it is in `x`: once or, with `pairs`, in the first input and in the second."""
        last = range(x.ndim - len(self.spatial), x.ndim)
        return [(1 + i, axis) if self.pairs else (axis,) for i, axis in enumerate(last)]

    def variances(self) -> tuple["State", Array, Array]:
        """The variances of both inputs, and the state with its tape moved on."""
        tape = self.tape
        if not tape.recording:
            return replace(self, tape=replace(tape, position=tape.position + 1)), *tape.entries[tape.position]
        own = jnp.maximum(self._equal_pixels(self.nngp) if self.pairs else self.nngp, 0)
        return replace(self, tape=replace(tape, entries=(*tape.entries, (own, own)))), own, own

    def per_pixel(self, first: Array, second: Array) -> tuple[Array, Array]:
        """A number for every pixel of either input, shaped to broadcast against `nngp`."""
        if not self.pairs:
            return first, second
        rank = len(self.spatial)
        count, *others = first.shape[: first.ndim - rank]  # (n,), or (n1, 1) beside the second's (1, n2)
        ones = (1,) * rank
        first = first.reshape(count, *first.shape[first.ndim - rank :], *others, *ones)
        return first, second.reshape(len(second), *ones, *second.shape[1:])
