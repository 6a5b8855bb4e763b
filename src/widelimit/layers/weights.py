"""The layers with weights: Dense and Conv.

In the NTK parameterisation a layer is W_std / sqrt(fan_in) W x + b_std b with standard normal W and b, so
K <- W_std^2 K + b_std^2 and Theta <- K + W_std^2 Theta, K already the new one. In the standard parameterisation the
scales sit in the initial values: K is the same, but the weights' own gradients now count with the number of inputs,
Theta <- fan_in K_before + 1 (with a bias) + W_std^2 Theta.
"""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..numerics.checks import check_int, check_number, check_optional_number
from ..sketches import Columns, Features, direct_sum, join, kept
from ..storage.module import parameter
from .base import WRONG_PARAMETERS, Drawn, Layer, Parameters, Scalar, Values, check_spatial_rank
from .shapes import Shape
from .state import State
from .windows import as_tuple, check_padding, common_window_sum, pad_axes, per_axis, window_count


def check_optional_width(width: int | None) -> int | None:
    """A number of channels, or None."""
    return None if width is None else check_int("width", width, least=1)


def scales(s: object) -> tuple[int, int]:
    """Width multipliers of the layer before and after. Only the standard parameterisation uses them."""
    if not (isinstance(s, tuple | list) and len(s) == 2):
        raise ValueError(f"s is a pair of whole numbers, such as (1, 1), not {s!r}.")
    before, after = s
    return check_int("s", before, least=1), check_int("s", after, least=1)


class _Weights(Layer):
    """Base of Dense and Conv. Subclasses say only which pixels a weight combines."""

    W_std: eqx.AbstractVar[Scalar]
    b_std: eqx.AbstractVar[Scalar | None]
    width: eqx.AbstractVar[int | None]
    parameterization: eqx.AbstractVar[str]
    s: eqx.AbstractVar[tuple[int, int]]

    def __check_init__(self) -> None:
        name = type(self).__name__
        if self.parameterization not in ("ntk", "standard"):
            raise ValueError(f"{name} has the parameterization 'ntk' or 'standard', not {self.parameterization!r}.")
        if self.width is None and isinstance(self.W_std, float) and self.W_std >= 32 and self.W_std.is_integer():
            warnings.warn(
                f"{name}(W_std={self.W_std:g}) is a scale of the weights. Unlike in neural-tangents no width comes first; "
                "where one is wanted, it is the keyword width=.",
                stacklevel=4,
            )
        for label, std in (("W_std", self.W_std), ("b_std", self.b_std)):
            if isinstance(std, float) and not 0 <= std < float("inf"):
                raise ValueError(f"{name} takes a {label} of 0 or more, not {std!r}.")

    @abstractmethod
    def filter_size(self) -> int:
        """The number of pixels that one output pixel sees."""

    @abstractmethod
    def combine(self, x: Array, state: State) -> Array:
        """The sum over the filter of a covariance."""

    @abstractmethod
    def patches(self, x: Array) -> list[Array]:
        """The pixels that every output pixel sees, one array for each place in the filter."""

    @abstractmethod
    def linear(self, W: Array, x: Array) -> Array:
        """W x, without scale and bias."""

    @abstractmethod
    def weight_shape(self) -> tuple[int, ...]:
        """The leading shape of W."""

    @abstractmethod
    def shape(self, shape: Shape, width: int | None) -> Shape: ...

    def propagate(self, state: State) -> State:
        return self.scale(state.map(lambda x: self.combine(x, state)))

    def scale(self, combined: State) -> State:
        """The state after the layer, given that before it with the pixels of its kernels combined."""
        nngp, ntk = self._scale_kernels(combined)
        return replace(
            combined,
            nngp=nngp,
            ntk=ntk,
            spatial=self.shape(combined.shape, None).spatial,
            channels=self.width,
            gaussian=True,
            weighted=(True,) * len(combined.weighted),
            after=type(self).__name__,
        )

    def _scale_kernels(self, combined: State) -> tuple[Array, Array | None]:
        """The new kernels from those whose pixels are combined."""
        scale = self.W_std**2 / self.filter_size()
        nngp = scale * combined.nngp
        if self.b_std is not None:
            nngp = nngp + self.b_std**2
        if not combined.context.wants_ntk:
            return nngp, None
        ntk = nngp if self.parameterization == "ntk" else self._own_gradients(combined)
        return nngp, ntk if combined.ntk is None else ntk + scale * combined.ntk

    def _own_gradients(self, before: State) -> Array:
        if before.channels is None:
            raise ValueError(
                f"{self!r} is in the standard parameterisation, whose NTK depends on the number of its inputs, and it "
                f"follows {before.after} of unknown width. Give width= to the Dense or Conv before it."
            )
        own = before.channels / self.s[0] * before.nngp
        return own if self.b_std is None else own + 1

    def sketch(self, key: PRNGKeyArray, features: Features) -> Drawn:
        key1, key2 = jax.random.split(key)
        parts, cap = self.filter_size(), features.cap
        features = features if self._shares(features) else features.plain()
        psi = None if features.psi is None else direct_sum(key2, features.psi, parts, cap)
        whole_patches = features.sketch.takes_whole_patches() and features.affords(parts * features.phi.count)
        return direct_sum(key1, features.phi, parts, None if whole_patches else cap), psi

    def features(self, drawn: Drawn, features: Features) -> Features:
        sum_phi, sum_psi = drawn
        sharing = self._shares(features)
        features = features if sharing else features.plain()
        scale = self.W_std / sqrt(self.filter_size())
        before = sum_phi(features.phi, self.patches)
        phi = before.scaled(scale)
        if self.b_std is not None:
            phi = join(_constant(phi, self.b_std), phi)
        psi = shared = None
        if sharing:  # the layer's own gradients are the columns of phi once more
            before_shared = jnp.zeros(phi.mixed.shape[-1]) if features.shared is None else features.shared
            shared = 1 + before_shared
            psi = Columns(phi.kept, phi.mixed[..., :0])
            psi = psi if features.psi is None else join(psi, features.psi.scaled(scale))
        elif features.wants_ntk:
            parts = [phi] if self.parameterization == "ntk" else self._gradient_columns(before, features.channels)
            if features.psi is not None:
                parts.append(sum_psi(features.psi, self.patches).scaled(scale))
            psi = join(*parts)
        bias = 0 if self.b_std is None else self.b_std**2

        def sum_over_patch(variance: Array) -> Array:
            first, *others = self.patches(variance[..., None])
            return sum(others, first)[..., 0] * scale**2

        return replace(
            features,
            phi=phi,
            psi=psi,
            shared=shared,
            variance=None if features.variance is None else sum_over_patch(features.variance) + bias,
            added=None if features.added is None else sum_over_patch(features.added),
            channels=self.width,
        )

    def _shares(self, features: Features) -> bool:
        """Whether the NTK may go on as multiples of the NNGP's columns."""
        fits = features.psi is None or features.shared is not None
        return (
            features.wants_ntk and features.widths.grows and self.filter_size() == 1 and self.parameterization == "ntk"
            and features.sketch.folds() and fits
        )  # fmt: skip

    def _gradient_columns(self, before: Columns, channels: int | None) -> list[Columns]:
        """Columns of the gradients of this layer's own weights, in the standard parameterisation."""
        own = before.scaled(sqrt((channels or 1) / self.s[0]))
        return [own] if self.b_std is None else [_constant(own, 1.0), own]

    def draw(self, key: PRNGKeyArray, shape: Shape, width: int) -> Parameters:
        key_w, key_b = jax.random.split(key)
        inputs, outputs = cast(int, shape.channels), self.width or width
        standard = self.parameterization == "standard"
        scale = self.W_std * sqrt(self.s[0] / (inputs * self.filter_size())) if standard else 1.0
        params = {"W": scale * jax.random.normal(key_w, (*self.weight_shape(), inputs, outputs))}
        if self.b_std is not None:
            params["b"] = (self.b_std if standard else 1.0) * jax.random.normal(key_b, (outputs,))
        return params

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        if not (isinstance(params, dict) and "W" in params and (self.b_std is None or "b" in params)):
            raise ValueError(WRONG_PARAMETERS)
        W = params["W"].astype(x.dtype)
        if x.shape[-1] != W.shape[-2]:
            raise ValueError(f"{self!r} has weights for {W.shape[-2]} channels and was given {x.shape[-1]}.")
        if self.parameterization == "standard":
            y = self.linear(W, x) / sqrt(self.s[0])
            return y if self.b_std is None else _plus(y, params["b"])
        y = self.W_std / sqrt(W.shape[-2] * self.filter_size()) * self.linear(W, x)
        return y if self.b_std is None else _plus(y, params["b"], self.b_std)


def _plus(y: Array, bias: Array, scale: Scalar = 1.0) -> Array:
    """y + scale bias, in float32 at least, because the gradient of a bias is a sum over all rows and pixels."""
    wide = jnp.promote_types(y.dtype, jnp.float32)
    return (y.astype(wide) + scale * bias.astype(wide)).astype(y.dtype)


def _constant(columns: Columns, value: Scalar) -> Columns:
    """One column of a number."""
    x = columns.kept if columns.kept.shape[-1] else columns.mixed
    return kept(jnp.full_like(x[..., :1], value))


class Dense(_Weights):
    """A fully connected layer over the channels; pixels, where there are any, share it.

    `W_std` and `b_std` are the standard deviations of weights and biases, in units of 1 / sqrt(inputs) and 1; None is no bias.
    `width` is the number of outputs of the finite network, where it is not that of all layers. `parameterization` is "ntk" or
    "standard", where the NTK counts a layer's inputs, over the first of the pair `s`.
    """

    W_std: Scalar = parameter(default=1.0)
    b_std: Scalar | None = parameter(default=None)
    width: int | None = eqx.field(default=None, static=True, kw_only=True, converter=check_optional_width)
    parameterization: str = eqx.field(default="ntk", static=True, kw_only=True)
    s: tuple[int, int] = eqx.field(default=(1, 1), static=True, kw_only=True, converter=scales)

    def shape(self, shape: Shape, width: int | None) -> Shape:
        return Shape((*shape.spatial, self.width or width))

    def filter_size(self) -> int:
        return 1

    def weight_shape(self) -> tuple[int, ...]:
        return ()

    def combine(self, x: Array, state: State) -> Array:
        return x

    def patches(self, x: Array) -> list[Array]:
        return [x]

    def linear(self, W: Array, x: Array) -> Array:
        return x @ W


class Conv(_Weights):
    """A convolution in one, two or three dimensions, as many as `filter_shape` has.

    `strides` are 1 where not said; `padding` is "VALID", "SAME" (zeros outside) or "CIRCULAR". `W_std`, `b_std`, `width`,
    `parameterization` and `s` are those of `Dense`; a filter's weights are divided by the root of its size too.
    """

    filter_shape: tuple[int, ...] = eqx.field(static=True)
    strides: tuple[int, ...] | None = eqx.field(static=True)
    padding: str = eqx.field(static=True)
    W_std: Scalar
    b_std: Scalar | None
    width: int | None = eqx.field(static=True)
    parameterization: str = eqx.field(static=True)
    s: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self, filter_shape: int | Sequence[int], strides: int | Sequence[int] | None = None, padding: str = "VALID",
        W_std: Scalar = 1.0, b_std: Scalar | None = None, *, width: int | None = None, parameterization: str = "ntk",
        s: tuple[int, int] = (1, 1),
    ):  # fmt: skip
        sizes = as_tuple(filter_shape)
        if not 1 <= len(sizes) <= 3:
            raise ValueError(f"Conv works in 1, 2 or 3 dimensions, and filter_shape={sizes!r} has {len(sizes)}.")
        self.filter_shape = per_axis("filter_shape", sizes, len(sizes))
        self.strides = None if strides is None else per_axis("strides", strides, len(sizes))
        check_padding(padding)
        self.padding = padding
        self.W_std, self.b_std = check_number(W_std), check_optional_number(b_std)
        self.width, self.parameterization, self.s = check_optional_width(width), parameterization, scales(s)

    @property
    def steps(self) -> tuple[int, ...]:
        """The strides, along every axis."""
        return self.strides or (1,) * len(self.filter_shape)

    @property
    def windows(self) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """Sizes, strides and padding, as `windows.common_window_sum` takes them."""
        return self.filter_shape, self.steps, self.padding

    def shape(self, shape: Shape, width: int | None) -> Shape:
        check_spatial_rank(self, shape, len(self.filter_shape))
        if self.padding != "SAME" and any(
            size > length for size, length in zip(self.filter_shape, shape.spatial, strict=True)
        ):
            raise ValueError(
                f"{self!r} is larger than its input of shape {shape}. Use a smaller filter or padding='SAME'."
            )
        windows = zip(shape.spatial, self.filter_shape, self.steps, strict=True)
        return Shape((*(window_count(*window, self.padding) for window in windows), self.width or width))

    def filter_size(self) -> int:
        return prod(self.filter_shape)

    def weight_shape(self) -> tuple[int, ...]:
        return self.filter_shape

    def combine(self, x: Array, state: State) -> Array:
        return common_window_sum(x, state.pixel_axes(x), *self.windows)

    def patches(self, x: Array) -> list[Array]:
        rank = len(self.filter_shape)
        counts = self.shape(Shape(x.shape[1:]), None).spatial
        x = pad_axes(x, tuple(range(1, rank + 1)), self.filter_shape, self.steps, self.padding)

        def shift(offset: tuple[int, ...]) -> Array:
            places = zip(offset, counts, self.steps, strict=True)
            return x[:, *(slice(start, start + (count - 1) * step + 1, step) for start, count, step in places)]

        return [shift(offset) for offset in np.ndindex(*self.filter_shape)]

    def linear(self, W: Array, x: Array) -> Array:
        rank = len(self.filter_shape)
        letters = "HWD"[:rank]
        x = pad_axes(x, tuple(range(1, rank + 1)), self.filter_shape, self.steps, self.padding)
        layout = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
        return jax.lax.conv_general_dilated(x, W, self.steps, "VALID", dimension_numbers=layout)
