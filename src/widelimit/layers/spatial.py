"""Layers without weights that combine pixels: pools and Flatten."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..sketches import Features, direct_sum
from .base import Drawn, Layer, Parameters, Values, check_spatial_rank
from .shapes import Shape
from .state import State
from .windows import as_tuple, check_padding, per_axis, window_count, window_sum


class _Pixels(Layer):
    """A linear map of the pixels of each channel, axis by axis.

    Subclasses say what happens along one axis (`along`); the kernel applies it to either side of a pair of pixels, the
    finite network to its values.
    """

    ends_pixels = False  # whether none are left after the layer

    @abstractmethod
    def shape(self, shape: Shape, width: int | None) -> Shape: ...

    @abstractmethod
    def along(self, x: Array, axis: int, which: int) -> Array:
        """The map along `axis`, which is the spatial axis number `which`."""

    def needs_pairs(self, after: bool) -> bool:
        return True

    def propagate(self, state: State) -> State:
        after = self.shape(state.shape, None).spatial

        def both_sides(x: Array) -> Array:
            sides = list(zip(*state.pixel_axes(x), strict=True))
            for axes in sides:
                for i, axis in enumerate(axes):
                    x = self.along(x, axis, i)
            return x if after else x.squeeze(sides[0] + sides[1])

        return state.map(both_sides, spatial=after, pairs=state.pairs and bool(after), after=type(self).__name__)

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        after = self.shape(Shape(x.shape[1:]), None)
        for i in range(x.ndim - 2):
            x = self.along(x, i + 1, i)
        return x.reshape(x.shape[0], *after)

    @abstractmethod
    def along_squared(self, x: Array, axis: int, which: int) -> Array:
        """`along` with the squares of its weights: how the variances of independent parts add up."""

    def features(self, drawn: Drawn, features: Features) -> Features:
        features = features.plain()
        added = features.added
        if added is not None:
            for i in range(len(features.spatial)):
                added = self.along_squared(added, i + 1, i)
            after = self.shape(Shape((*features.spatial, None)), None).spatial
            added = added.reshape(added.shape[0], *after)

        def pool(x: Array) -> Array:
            # means over many pixels differ by less than bfloat16 resolves
            x = x.astype(jnp.promote_types(x.dtype, jnp.float32)) if self.ends_pixels else x
            return self.forward((), x, None)

        return features.map(lambda columns: columns.map(pool), variance=None, added=added)


class _Pool(_Pixels):
    window_shape: tuple[int, ...] = eqx.field(static=True)
    strides: tuple[int, ...] | None = eqx.field(default=None, static=True)
    padding: str = eqx.field(default="VALID", static=True)

    def __init__(
        self, window_shape: int | Sequence[int], strides: int | Sequence[int] | None = None, padding: str = "VALID"
    ):
        sizes = as_tuple(window_shape)
        self.window_shape = per_axis("window_shape", sizes, len(sizes))
        self.strides = None if strides is None else per_axis("strides", strides, len(sizes))
        check_padding(padding)
        self.padding = padding

    def _window(self, which: int) -> tuple[int, int, str]:
        return self.window_shape[which], self.strides[which] if self.strides else 1, self.padding

    def shape(self, shape: Shape, width: int | None) -> Shape:
        check_spatial_rank(self, shape, len(self.window_shape))
        fits = all(size <= length for size, length in zip(self.window_shape, shape.spatial, strict=True))
        if not fits and self.padding != "SAME":
            raise ValueError(
                f"{self!r} is larger than its input of shape {shape}. Use a smaller window or fewer pools."
            )
        counts = (window_count(length, *self._window(i)) for i, length in enumerate(shape.spatial))
        return Shape((*counts, shape.channels))


class SumPool(_Pool):
    """The sum over windows.

    `window_shape` and `strides` are numbers for each spatial axis, strides 1 where not said; `padding` is "VALID", "SAME" or
    "CIRCULAR".
    """

    def along(self, x: Array, axis: int, which: int) -> Array:
        return window_sum(x, (axis,), *self._window(which))

    def along_squared(self, x: Array, axis: int, which: int) -> Array:
        return self.along(x, axis, which)


class AvgPool(_Pool):
    """The mean over windows. With SAME padding the zeros outside count, unless `normalize_edges`.

    `window_shape`, `strides` and `padding` are those of `SumPool`.
    """

    normalize_edges: bool = eqx.field(default=False, static=True)

    def __init__(
        self, window_shape: int | Sequence[int], strides: int | Sequence[int] | None = None, padding: str = "VALID",
        normalize_edges: bool = False,
    ):  # fmt: skip
        super().__init__(window_shape, strides, padding)
        self.normalize_edges = normalize_edges

    def along(self, x: Array, axis: int, which: int) -> Array:
        return window_sum(x, (axis,), *self._window(which)) / self._counts(x, axis, which)

    def along_squared(self, x: Array, axis: int, which: int) -> Array:
        return self.along(x, axis, which) / self._counts(x, axis, which)

    def _counts(self, x: Array, axis: int, which: int) -> int | Array:
        """How many pixels a window has."""
        if not self.normalize_edges:
            return self.window_shape[which]
        counts = window_sum(jnp.ones(x.shape[axis], x.dtype), (0,), *self._window(which))
        return counts.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


class _Global(_Pixels):
    ends_pixels = True

    def shape(self, shape: Shape, width: int | None) -> Shape:
        check_spatial_rank(self, shape)
        return Shape((shape.channels,))


class GlobalSumPool(_Global):
    """The sum over all pixels."""

    def along(self, x: Array, axis: int, which: int) -> Array:
        return x.sum(axis, keepdims=True)

    def along_squared(self, x: Array, axis: int, which: int) -> Array:
        return self.along(x, axis, which)


class GlobalAvgPool(_Global):
    """The mean over all pixels."""

    def along(self, x: Array, axis: int, which: int) -> Array:
        return x.mean(axis, keepdims=True)

    def along_squared(self, x: Array, axis: int, which: int) -> Array:
        return self.along(x, axis, which) / x.shape[axis]


class Flatten(Layer):
    """All pixels become channels: the kernel is the mean over equal pixels, and no others are needed."""

    def shape(self, shape: Shape, width: int | None) -> Shape:
        return Shape((None if shape.channels is None else prod(shape.spatial) * shape.channels,))

    def needs_pairs(self, after: bool) -> bool:
        return False

    def propagate(self, state: State) -> State:
        axes = tuple(range(-len(state.spatial), 0))
        channels = self.shape(state.shape, None).channels
        return state.diagonal().map(lambda x: x.mean(axes), spatial=(), channels=channels, after="Flatten")

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        return x.reshape(x.shape[0], -1)

    def sketch(self, key: PRNGKeyArray, features: Features) -> Drawn:
        key1, key2 = jax.random.split(key)
        features = features.plain()
        pixels, cap = prod(features.spatial), features.cap
        psi = None if features.psi is None else direct_sum(key2, features.psi, pixels, cap)
        return direct_sum(key1, features.phi, pixels, cap), psi

    def features(self, drawn: Drawn, features: Features) -> Features:
        features = features.plain()
        sum_phi, sum_psi = drawn
        pixels = prod(features.spatial)
        axes = tuple(range(1, 1 + len(features.spatial)))

        def parts(x: Array) -> list[Array]:
            return list(jnp.moveaxis(x.reshape(x.shape[0], pixels, -1), 1, 0))

        channels = self.shape(Shape((*features.spatial, features.channels)), None).channels
        psi = features.psi
        return replace(
            features,
            phi=sum_phi(features.phi, parts).scaled(pixels**-0.5),
            psi=None if psi is None else sum_psi(psi, parts).scaled(pixels**-0.5),
            variance=None if features.variance is None else features.variance.mean(axes),
            added=None if features.added is None else features.added.mean(axes),
            channels=channels,
        )
