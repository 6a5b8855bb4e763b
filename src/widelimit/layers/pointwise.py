"""Layers that rescale: LayerNorm and Dropout."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..numerics.checks import check_number
from ..sketches import Features
from ..storage.module import parameter
from .base import Drawn, Layer, Parameters, Scalar, Values
from .shapes import Shape
from .state import State


def check_axes(axis: object) -> int | tuple[int, ...]:
    """An axis, or a tuple of them."""
    if np.ndim(cast(Sequence[int], axis)):
        return tuple(_check_axis(one) for one in cast(Sequence[int], axis))
    return _check_axis(axis)


def _check_axis(axis: object) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise TypeError(f"axis is a whole number, or a tuple of them, not {axis!r}.")
    return int(axis)


class LayerNorm(Layer):
    """Divides by the standard deviation over `axis`: the channels, and spatial axes where they are named too.

    Axes count as in an input with its batch: 0 is the batch, which cannot be named. `eps` is added to the variance.
    """

    axis: int | tuple[int, ...] = eqx.field(default=-1, static=True, converter=check_axes)
    eps: float = eqx.field(default=1e-12, static=True, converter=lambda eps: float(check_number(eps)))

    def __check_init__(self) -> None:
        if not self.eps > 0:
            raise ValueError(f"LayerNorm takes an eps above 0, which keeps zero rows finite, not {self.eps!r}.")

    def _axes(self, rank: int) -> tuple[int, ...]:
        named = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        axes = tuple(sorted({axis % rank if -rank <= axis < rank else rank for axis in named}))
        if 0 in axes or rank in axes or rank - 1 not in axes:
            raise ValueError(
                f"LayerNorm(axis={self.axis!r}) on an input with {rank} axes: it must name the channels, which are axis "
                f"-1, may name spatial axes, and cannot name the batch, axis 0."
            )
        return axes

    def shape(self, shape: Shape, width: int | None) -> Shape:
        self._axes(len(shape) + 1)
        return shape

    def propagate(self, state: State) -> State:
        if not state.gaussian:
            raise ValueError(
                f"LayerNorm needs a Gaussian input but follows {state.after}. Put Dense or Conv before it."
            )
        rank = len(state.spatial)
        averaged = [axis - 1 for axis in self._axes(rank + 2)[:-1]]
        state, first, second = state.variances()

        def scale(variance: Array) -> Array:
            axes = tuple(variance.ndim - rank + axis for axis in averaged)
            return 1 / jnp.sqrt(variance.mean(axes, keepdims=True) + self.eps)

        left, right = state.per_pixel(scale(first), scale(second))
        return replace(state.map(lambda x: x * left * right), after="LayerNorm")

    def features(self, drawn: Drawn, features: Features) -> Features:
        averaged = tuple(axis for axis in self._axes(len(features.spatial) + 2)[:-1])
        variance = features.total_variance()
        scale = 1 / jnp.sqrt(variance.mean(averaged, keepdims=True) + self.eps)
        scale = jnp.broadcast_to(scale, variance.shape)
        return features.map(
            lambda columns: columns.scaled(scale),
            variance=None if features.variance is None else variance * scale**2,
            added=None if features.added is None else features.added * scale**2,
        )

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        axes = self._axes(x.ndim)
        centred = x - x.mean(axes, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(axes, keepdims=True) + self.eps)


class Dropout(Layer):
    """Keeps each value with probability `keep`, scaled by 1 / keep; with mode="test", all of them.

    Two different inputs meet independent masks: only the covariance of a value with itself grows, by 1 / keep.
    """

    keep: Scalar = parameter()
    mode: str = eqx.field(default="train", static=True)

    def __check_init__(self) -> None:
        if isinstance(self.keep, int | float) and not 0 < self.keep <= 1:
            raise ValueError(f"Dropout keeps a share of the values, above 0 and up to 1, not {self.keep!r}.")
        if self.mode not in ("train", "test"):
            raise ValueError(f"Dropout has the mode 'train' or 'test', not {self.mode!r}.")

    def shape(self, shape: Shape, width: int | None) -> Shape:
        return shape

    def propagate(self, state: State) -> State:
        if self.mode == "test":
            return state
        state = replace(state, gaussian=False, after="Dropout")
        if not state.context.with_itself:
            return state
        pixels = prod(state.spatial)
        same = np.eye(pixels).reshape(state.spatial * 2) if state.pairs else np.ones(state.spatial)
        return state.map(lambda x: x * (1 + (1 / self.keep - 1) * jnp.asarray(same, x.dtype)))

    def features(self, drawn: Drawn, features: Features) -> Features:
        if self.mode == "test":
            return features
        more = (1 / self.keep - 1) * features.total_variance()
        return replace(
            features,
            variance=None if features.variance is None else features.variance + more,
            added=more if features.added is None else features.added + more,
        )

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        if self.mode == "test":
            return x
        if key is None:
            raise ValueError(
                "Dropout in train mode is random, and it was given no random key. Give one, or use mode='test'."
            )
        return jnp.where(jax.random.bernoulli(key, self.keep, x.shape), x / self.keep, 0)
