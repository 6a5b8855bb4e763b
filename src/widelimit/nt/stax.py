"""neural-tangents' `stax`: the same names, parameters and defaults. Each layer is a triple (init_fn, apply_fn, kernel_fn).

Every constructor makes a layer of widelimit, with its width, and wraps it. The attribute `layer` of a triple is that layer.
"""

from collections.abc import Callable, Sequence
from math import factorial, sqrt
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from .. import activations as act
from .. import layers as lay
from .. import network
from .choosing import missing_name
from .kernels import KernelFn, canonical, restore, restore_shape

__all__ = [
    "ABRelu", "Abs", "AvgPool", "Conv", "Cos", "Dense", "Dropout", "Elementwise", "ElementwiseNumerical", "Erf", "Exp",
    "ExpNormalized", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gabor", "Gaussian", "Gelu", "GlobalAvgPool",
    "GlobalSumPool", "Hermite", "Identity", "LayerNorm", "LeakyRelu", "Monomial", "Polynomial", "Rbf", "RectifiedMonomial",
    "Relu", "Sigmoid_like", "Sign", "Sin", "SumPool", "Triple", "parallel", "repeat", "serial",
]  # fmt: skip

AXES = (0, -1)  # of the batch and the channels, unless a layer says otherwise


class Triple(tuple[Any, ...]):
    """(init_fn, apply_fn, kernel_fn), and the layer of widelimit that they are made of."""

    layer: Any
    axes: tuple[int, int]

    def __new__(cls, layer: Any, axes: tuple[int, int] = AXES) -> "Triple":
        """Wrap a layer or an activation whose inputs have their batch and channels at `axes`."""
        net = layer if isinstance(layer, network.Network) else network.serial(layer)

        def init_fn(rng: Any, input_shape: Sequence[int]) -> tuple[tuple[int | None, ...], Any]:
            shape = np.moveaxis(np.broadcast_to(0, [max(size, 0) for size in input_shape]), axes, AXES).shape
            # the batch may be -1, where the number of inputs is left open
            output = (input_shape[axes[0]], *net.output_shape(shape[1:]))
            return restore_shape(output, axes) if len(output) == len(shape) else output, net.init(rng, shape[1:])

        def apply_fn(params: Any, inputs: Any, rng: Any = None, **unknown: Any) -> Any:
            if unknown:
                raise TypeError(f"apply_fn was given {', '.join(unknown)}. Known are params, inputs and rng.")
            return restore(net.apply(params, canonical(inputs, axes), key=rng), axes, np.ndim(inputs))

        self = super().__new__(cls, (init_fn, apply_fn, KernelFn(net, axes)))
        self.layer, self.axes = layer, axes
        return self


def _unwrap(triples: Sequence[Any]) -> tuple[list[Any], tuple[int, int]]:
    """The layers of triples, and their axes. Layers that leave the axes at their defaults follow the others."""
    for triple in triples:
        if not isinstance(triple, Triple):
            raise TypeError(
                f"{triple!r} is no layer of widelimit.stax. A function becomes one by stax.Elementwise(fn)."
            )
    layouts = {triple.axes for triple in triples} - {AXES}
    if len(layouts) > 1:
        raise ValueError(f"Layers with different batch_axis and channel_axis, {layouts}. Give all layers the same.")
    layers = [triple.layer for triple in triples]
    if layouts:
        for part in jax.tree.leaves(layers, is_leaf=lambda part: isinstance(part, lay.FanInConcat)):
            if isinstance(part, lay.FanInConcat) and part.axis != -1:
                raise ValueError(
                    f"FanInConcat({part.axis}) beside layers with batch_axis and channel_axis {layouts}. The channels are -1 "
                    "here, wherever they are in the inputs; for spatial axes put the channels last."
                )
    return layers, next(iter(layouts), AXES)


def serial(*layers: Triple) -> Triple:
    """Layers in a row."""
    unwrapped, axes = _unwrap(layers)
    return Triple(network.serial(*unwrapped), axes)


def parallel(*layers: Triple) -> Triple:
    """Layers side by side, on the branches of a FanOut."""
    unwrapped, axes = _unwrap(layers)
    return Triple(lay.parallel(*unwrapped), axes)


def repeat(layer: Triple, n: int) -> Triple:
    """n independent copies of a layer in a row."""
    (single,), axes = _unwrap([layer])
    return Triple(network.repeat(single, n), axes)


# Layers with weights. In the standard parameterisation a layer is wider than it counts, by `s` before and after it.


def _weights(kind: Any, width: int, parameterization: str, s: Sequence[int], *args: Any) -> Any:
    if not isinstance(parameterization, str):
        raise ValueError(f"parameterization is 'ntk' or 'standard', not {parameterization!r}.")
    parameterization = parameterization.lower()
    if parameterization != "standard":
        return kind(*args, width=width, parameterization=parameterization)
    return kind(*args, width=width * lay.scales(s)[1], parameterization=parameterization, s=s)


def Dense(
    out_dim: int,
    W_std: float = 1.0,
    b_std: float | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Triple:
    """A fully connected layer."""
    layer = _weights(lay.Dense, out_dim, parameterization, s, W_std, b_std)
    return Triple(layer, (batch_axis, channel_axis))


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: float = 1.0,
    b_std: float | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Triple:
    """A convolution in one to three dimensions."""
    axes = AXES if dimension_numbers is None else _layout(dimension_numbers)
    layer = _weights(lay.Conv, out_chan, parameterization, s, filter_shape, strides, padding.upper(), W_std, b_std)
    return Triple(layer, axes)


def _layout(numbers: tuple[str, str, str]) -> tuple[int, int]:
    """The axes of the batch and the channels of ('NCHW', 'OIHW', 'NCHW') and the like."""
    if len(numbers) != 3:
        raise ValueError(f"dimension_numbers are three layouts, such as ('NCHW', 'OIHW', 'NCHW'), not {numbers!r}.")
    first, _, last = numbers
    if first != last or not {"N", "C"} <= set(first):
        raise ValueError(f"dimension_numbers={numbers!r}: inputs and outputs must have one layout with N and C.")
    batch, channel = first.index("N"), first.index("C")
    return batch, -1 if channel == len(first) - 1 else channel


# Layers without.


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Triple:
    """The mean over windows."""
    return Triple(lay.AvgPool(window_shape, strides, padding.upper(), normalize_edges), (batch_axis, channel_axis))


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Triple:
    """The sum over windows."""
    windows, steps = tuple(window_shape), None if strides is None else tuple(strides)
    return Triple(lay.SumPool(windows, steps, padding.upper()), (batch_axis, channel_axis))


def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> Triple:
    """The mean over all pixels."""
    return Triple(lay.GlobalAvgPool(), (batch_axis, channel_axis))


def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> Triple:
    """The sum over all pixels."""
    return Triple(lay.GlobalSumPool(), (batch_axis, channel_axis))


def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> Triple:
    """All pixels as channels."""
    if batch_axis_out not in (0, -2):
        raise ValueError(
            f"Flatten puts the batch first, and batch_axis_out={batch_axis_out} was given. Transpose after it."
        )
    return Triple(lay.Flatten(), (batch_axis, -1))


def LayerNorm(
    axis: int | Sequence[int] = -1, eps: float = 1e-12, batch_axis: int = 0, channel_axis: int = -1
) -> Triple:
    """Divides by the standard deviation over axes, which count as in the input."""
    if (batch_axis, channel_axis) != AXES:
        raise ValueError("LayerNorm is offered for batch_axis=0 and channel_axis=-1. Transpose the inputs.")
    return Triple(lay.LayerNorm(axis if isinstance(axis, int) else tuple(axis), eps))


def Dropout(rate: float, mode: str = "train") -> Triple:
    """Keeps each value with probability `rate`, as neural-tangents calls it."""
    return Triple(lay.Dropout(rate, mode))


def Identity() -> Triple:
    """Does nothing."""
    return Triple(lay.Identity())


def FanOut(num: int) -> Triple:
    """Copies, for `parallel`."""
    return Triple(lay.FanOut(num))


def FanInSum() -> Triple:
    """The sum of branches."""
    return Triple(lay.FanInSum())


def FanInConcat(axis: int = -1) -> Triple:
    """Branches joined along an axis."""
    return Triple(lay.FanInConcat(axis))


# Activations. `do_stabilize` and `do_clip` are accepted for compatibility and ignored: kernels here do not overflow.


def Relu(do_stabilize: bool = False) -> Triple:
    """max(t, 0)."""
    return Triple(act.Relu())


def ABRelu(a: float, b: float, do_stabilize: bool = False) -> Triple:
    """a min(t, 0) + b max(t, 0)."""
    return Triple(act.ABRelu(a, b))


def LeakyRelu(alpha: float, do_stabilize: bool = False) -> Triple:
    """t, or alpha t below 0."""
    return Triple(act.LeakyRelu(alpha))


def Abs(do_stabilize: bool = False) -> Triple:
    """|t|."""
    return Triple(act.Abs())


def Sign() -> Triple:
    """The sign of t."""
    return Triple(act.Sign())


def Erf(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Triple:
    """a erf(b t) + c."""
    return Triple(act.Erf(a, b, c))


def Sigmoid_like() -> Triple:
    """An error function near the sigmoid."""
    return Triple(act.SigmoidLike())


def Gelu(approximate: bool = False) -> Triple:
    """t Phi(t); with `approximate` both the function and its kernel are those of the approximation by tanh."""
    return Triple(act.Gelu(approximate))


def Sin(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Triple:
    """a sin(b t + c)."""
    return Triple(act.Sin(a, b, c))


def Cos(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Triple:
    """a cos(b t + c)."""
    return Triple(act.Cos(a, b, c))


def Rbf(gamma: float = 1.0) -> Triple:
    """The sine whose kernel is Gaussian."""
    return Triple(act.Rbf(gamma))


def Gaussian(a: float = 1.0, b: float = -1.0) -> Triple:
    """a exp(b t^2)."""
    return Triple(act.Gaussian(a, b))


def Exp(a: float = 1.0, b: float = 1.0) -> Triple:
    """a exp(b t)."""
    return Triple(act.Exp(a, b))


def ExpNormalized(gamma: float = 1.0, shift: float = -1.0, do_clip: bool = False) -> Triple:
    """No function; its kernel is the normalised Gaussian."""
    return Triple(act.ExpNormalized(gamma, shift))


def Gabor() -> Triple:
    """exp(-t^2) sin(t)."""
    return Triple(act.Gabor())


def Monomial(degree: int) -> Triple:
    """t^degree."""
    return Triple(act.Monomial(degree))


def RectifiedMonomial(degree: int) -> Triple:
    """max(t, 0)^degree."""
    return Triple(act.RectifiedMonomial(degree))


def Polynomial(coef: Sequence[float]) -> Triple:
    """The polynomial with these coefficients, lowest degree first."""
    return Triple(act.Polynomial(coef))


def Hermite(degree: int) -> Triple:
    """The normalised Hermite polynomial. Its kernel is right at any norm; neural-tangents' only at norm 1."""
    return Triple(act.Affine(act.Hermite(degree), 1 / sqrt(factorial(degree))))


class _ByFunctions(act.FromDual):
    """An activation given by its kernel, and perhaps also by its function and the slope of its kernel."""

    applied: Callable[..., Any] | None = eqx.field(static=True)
    slope: Callable[..., Any] | None = eqx.field(static=True)

    def __init__(
        self, fn: Callable[..., Any] | None, nngp_fn: Callable[..., Any], d_nngp_fn: Callable[..., Any] | None
    ):
        super().__init__(nngp_fn)
        self.applied, self.slope = fn, d_nngp_fn

    def fn(self, t: Array) -> Array:
        return super().fn(t) if self.applied is None else self.applied(t)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return super().k_slope(a, b, c) if self.slope is None else self.slope(a * b * c, a**2, b**2)


def Elementwise(
    fn: Callable[..., Any] | None = None,
    nngp_fn: Callable[..., Any] | None = None,
    d_nngp_fn: Callable[..., Any] | None = None,
) -> Triple:
    """A function, its kernel nngp_fn(cov, var1, var2), or both. Without a kernel it is computed, with a kink at 0 allowed."""
    if nngp_fn is not None:
        return Triple(_ByFunctions(fn, nngp_fn, d_nngp_fn))
    if fn is None:
        raise ValueError(
            "Elementwise takes a function fn, its kernel nngp_fn(cov, var1, var2), or both; it got neither."
        )
    return Triple(act.Elementwise(fn))


def ElementwiseNumerical(fn: Callable[..., Any], deg: int, df: Callable[..., Any] | None = None) -> Triple:
    """Any function. The effort adapts to the inputs, so `deg` and the derivative `df` are accepted and ignored."""
    return Triple(act.Elementwise(fn))


_NEAREST = {
    "Aggregate": "Conv or GlobalAvgPool",
    "ConvLocal": "Conv",
    "ConvTranspose": "Conv",
    "DotGeneral": "Dense or Conv",
    "FanInProd": "FanInSum",
    "GlobalSelfAttention": "GlobalAvgPool",
    "ImageResize": "AvgPool, or resize the inputs",
    "Index": "slices of the inputs",
    "Slice": "slices of the inputs",
    "MaskedArray": "inputs without the masked rows",
    "unmask_fn": "inputs without the masked rows",
    "layer": "a subclass of widelimit.Layer",
    "requires": "a subclass of widelimit.Layer",
    "supports_masking": "a subclass of widelimit.Layer",
}


def __getattr__(name: str) -> Any:
    hint = f" widelimit.{name} is one: stax.Triple(widelimit.{name}()) makes it a layer of stax."
    raise missing_name("stax", name, _NEAREST, hint if hasattr(act, name) else "")
