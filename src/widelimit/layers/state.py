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
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import ULPS
from .shapes import Shape

STATIC = {"static": True}  # not traced: part of what JAX compiles for


class Context(NamedTuple):
    """What a call wants: the same before every layer, but for `keep_pairs`, which each network sets for its layers."""

    wants_ntk: bool
    with_itself: bool  # whether every input is paired with itself alone, which finds the variances; else all with all
    keep_pairs: bool = False  # whether the layers after the present one need pairs of different pixels
    ulps: float = ULPS  # the rounding error of a cosine, in machine epsilons


class Tape(eqx.Module):
    """The variances before each activation, of both inputs of every pair.

    Where inputs are paired with themselves they are added at the end; otherwise `position` moves along them.
    """

    entries: tuple[tuple[Float[Array, "..."], Float[Array, "..."]], ...] = ()
    position: int = eqx.field(default=0, static=True)


class State(eqx.Module):
    """The covariances of a batch of pairs after some layer; see the module."""

    nngp: Float[Array, "*pairs"]
    ntk: Float[Array, "*pairs"] | None  # None: not wanted, or 0, as no weights have come yet
    tape: Tape
    context: Context = eqx.field(static=True)
    spatial: tuple[int, ...] = eqx.field(static=True)  # the sizes of the spatial axes
    channels: int | None = eqx.field(static=True)  # of the input or a layer with `width=`; None: not said
    pairs: bool = eqx.field(static=True)  # whether every pixel of one input is paired with every pixel of the other
    gaussian: bool = eqx.field(default=False, static=True)  # whether the values are Gaussian, as an activation requires
    # whether weights came since each FanOut, last first
    weighted: tuple[bool, ...] = eqx.field(default=(), static=True)
    after: str = eqx.field(default="the input", static=True)  # the last layer, for messages

    @property
    def shape(self) -> Shape:
        """The shape of the values whose covariances these are."""
        return Shape((*self.spatial, self.channels))

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

    def variances(self) -> tuple["State", Float[Array, "..."], Float[Array, "..."]]:
        """The variances of both inputs, and the state with its tape moved on."""
        tape = self.tape
        if not self.context.with_itself:
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
