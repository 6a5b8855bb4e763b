"""Guarded arithmetic and special functions.

Three habits keep NaN out of the library:

* a root or a quotient that may meet zero is guarded twice (`safe_sqrt`, `safe_divide`): once so that its value is
  right, once so that its derivative is zero rather than NaN;
* 1 - c^2 is written (1 - c)(1 + c), which keeps its digits where c is near 1;
* a cosine that its own rounding error cannot tell from 1 or -1 *is* 1 or -1 (`cosine`).
"""

from collections.abc import Callable
from functools import lru_cache, partial
from math import factorial, pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from .device import on_accelerator

# The rounding error of cov / (a * b), in units of the machine epsilon, when cov, a and b each carry a few roundings.
ULPS = 8.0


def safe_sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The square root of max(x, 0), with derivative 0 at 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def safe_divide(x: Array, y: Array) -> Array:
    """x / y, and 0 where y is 0, with finite derivatives."""
    nonzero = y != 0
    return jnp.where(nonzero, x / jnp.where(nonzero, y, 1), 0)


def safe_log(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logarithm of x, and the most negative finite number where x is 0."""
    positive = x > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, x, 1)), jnp.finfo(x.dtype).min)


def cosine(cov: Array, a: Array, b: Array, ulps: float = ULPS) -> Array:
    """The cosine cov / (a b), between -1 and 1, and 0 where a or b is 0.

    Where it is within `ulps` roundings of 1 or -1 it is set there. The angle of such a pair is pure rounding noise, and
    a slope with a kink turns noise of size eps into noise of size sqrt(eps): three equal rows would give a kernel matrix
    with an eigenvalue below -1e-9. Set to exactly 1, equal rows have equal kernels.
    """
    one = jnp.ones((), a.dtype)
    c = cov * safe_divide(one, a) * safe_divide(one, b)  # the divisions are per input, not per pair
    return set_at_one(c, ulps)


def set_at_one(c: Array, ulps: float) -> Array:
    """A quotient as a cosine: 1 or -1 where it is beyond, or within `ulps` roundings."""
    margin = 1 - ulps * jnp.finfo(c.dtype).eps
    return jnp.where(c >= margin, 1, jnp.where(c <= -margin, -1, c)).astype(c.dtype)


# arccos(x) / sqrt(1 - x) and sqrt(1 + x) are smooth on [0, 1], and so is arctan(t) / t as a function of t^2. The nearest
# singularity is at -1, so a polynomial of degree n is off by 5.8^-n, and together with one root it is several times
# faster on a CPU than the functions of the C library. A root is a step that XLA does not repeat, so one is better than two.


@lru_cache
def _fit(fn: Callable[[np.ndarray], np.ndarray], degree: int) -> tuple[float, ...]:
    """Ascending coefficients in 2x - 1 of the polynomial nearest to fn on [0, 1]."""
    z = np.cos(np.pi * (np.arange(4 * degree) + 0.5) / (4 * degree))
    chebyshev = np.polynomial.chebyshev.chebfit(z, fn((1 + z) / 2), degree)
    return tuple(np.polynomial.chebyshev.cheb2poly(chebyshev).tolist())


def _arccos_part(x: np.ndarray) -> np.ndarray:
    return 2 * np.arcsin(np.sqrt((1 - x) / 2)) / np.sqrt(1 - x)


def _sine_part(x: np.ndarray) -> np.ndarray:
    return np.sqrt(1 + x)


def _arctan_part(x: np.ndarray) -> np.ndarray:
    return np.arctan(np.sqrt(x)) / np.sqrt(x)


def _smooth(fn: Callable[[np.ndarray], np.ndarray], x: Array) -> Array:
    return polynomial(_fit(fn, 22 if x.dtype == jnp.float64 else 10), 2 * x - 1)


@jax.custom_jvp
def sine(c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sqrt(1 - c^2), with derivative 0 where c is 1 or -1."""
    return jnp.sqrt(jnp.maximum(1 - abs(c), 0)) * _smooth(_sine_part, abs(c))


@sine.defjvp
def _sine_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    (c,), (dc,) = primals, tangents
    s = sine(c)
    return s, -safe_divide(c * dc, s)


@jax.custom_jvp
def angle(c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """arccos(c) with every digit near c = 1, and derivative 0 where c is 1 or -1."""
    acute = jnp.sqrt(jnp.maximum(1 - abs(c), 0)) * _smooth(_arccos_part, abs(c))
    return jnp.where(c < 0, pi - acute, acute)


@angle.defjvp
def _angle_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    (c,), (dc,) = primals, tangents
    return angle(c), -safe_divide(dc, sine(c))


@jax.custom_jvp
def arctan2(y: Float[Array, "*shape"], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """arctan(y / x) for x > 0."""
    size = abs(y)
    t = jnp.minimum(size, x) / jnp.maximum(size, x)
    small = t * _smooth(_arctan_part, t * t)
    return jnp.sign(y) * jnp.where(size > x, pi / 2 - small, small)


@arctan2.defjvp
def _arctan2_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    (y, x), (dy, dx) = primals, tangents
    norm = jnp.hypot(x, y)
    return arctan2(y, x), ((x / norm) * dy - (y / norm) * dx) / norm


def spread(value: Array, *others: Array) -> Array:
    """`value` in the shape that it and the others broadcast to."""
    return jnp.broadcast_to(value, jnp.broadcast_shapes(value.shape, *(other.shape for other in others)))


def polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """The polynomial with these ascending coefficients, by Horner's rule."""
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


@lru_cache
def legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    x, w = special.roots_legendre(nodes)
    return (x + 1) / 2, w / 2


def graded_rule(nodes: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """A Gauss-Legendre rule on [0, 1] with its nodes drawn towards both ends: x^p / (x^p + (1 - x)^p)."""
    x, w = legendre(nodes)
    low, high = x**power, (1 - x) ** power
    return low / (low + high), w * power * (x * (1 - x)) ** (power - 1) / (low + high) ** 2


@lru_cache
def _erfcx_coefficients(degree: int) -> tuple[float, ...]:
    """Chebyshev coefficients of (1 + 2x) erfcx(x) in y = (x - 3.75) / (x + 3.75), which is smooth on all of [-1, 1]."""
    y = np.cos(np.pi * (np.arange(4 * degree) + 0.5) / (4 * degree))
    x = 3.75 * (1 + y) / (1 - y)
    return tuple(np.polynomial.chebyshev.chebfit(y, (1 + 2 * x) * special.erfcx(x), degree).tolist())


def erfcx(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """exp(x^2) erfc(x) for x >= 0, to a few roundings (`jax.scipy.special` has it only from JAX 0.10.1 on)."""
    y = (x - 3.75) / (x + 3.75)
    first, *rest = _erfcx_coefficients(28 if x.dtype == jnp.float64 else 12)
    ahead, after = jnp.zeros_like(x), jnp.zeros_like(x)
    for coefficient in reversed(rest):  # Clenshaw's recurrence
        ahead, after = 2 * y * ahead - after + coefficient, ahead
    return (y * ahead - after + first) / (1 + 2 * x)


def cos_and_sin(x: Float[Array, "*shape"]) -> tuple[Array, Array]:
    """The cosine and the sine of x, to a few roundings where |x| is below 1e4 or so.

    On a CPU, XLA computes them one number at a time, which takes ten times as long. float64 still does that.
    """
    return _cos_and_sin(jnp.asarray(x))


@jax.custom_jvp
def _cos_and_sin(x: Array) -> tuple[Array, Array]:
    if x.dtype == jnp.float64:
        return jnp.cos(x), jnp.sin(x)
    wide = x.astype(jnp.float32)
    turns = jnp.floor(wide * (1 / pi) + 0.5)
    high = np.float32(201 / 64)  # few digits, so that its multiples are exact
    rest = (wide - turns * high) - turns * np.float32(pi - 201 / 64)
    rest = jnp.clip(rest, -1.7, 1.7)  # a number too large to be reduced gives one between -1 and 1 still
    sign = 1 - 2 * (turns - 2 * jnp.floor(turns / 2))
    square = rest**2
    cos, sin = jnp.zeros_like(wide), jnp.zeros_like(wide)
    for order in (12, 10, 8, 6, 4, 2, 0):  # Taylor's series
        cos = cos * square + (-1) ** (order // 2) / factorial(order)
        sin = sin * square + (-1) ** (order // 2) / factorial(order + 1)
    return (sign * cos).astype(x.dtype), (sign * sin * rest).astype(x.dtype)


@_cos_and_sin.defjvp
def _cos_and_sin_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    cos, sin = _cos_and_sin(*primals)
    return (cos, sin), (-sin * tangents[0], cos * tangents[0])


def product_precision(dtype: Any) -> str | None:
    """The `precision` argument for products of matrices of `dtype`: the highest, which GPUs do not use on their own.

    Half precision needs no argument. Its products are exact in float32, where they are summed, and a GPU asked for more would
    not use its fast units.
    """
    return None if jnp.dtype(dtype).itemsize < 4 else "highest"


def fusion_barrier(fn: Callable[..., Any], first: Array | None, results: int) -> Callable[..., Any]:
    """fn as a step that XLA neither merges with others nor computes twice, to be called with `first` as its first argument.

    There are `results` of them, shaped like the first arguments. Merged with the sums of a window, XLA computes an activation
    anew for every offset, and with it the layers before it: a convolutional kernel then takes three times as long, a deep
    fully connected one twice. Its own barrier is gone before its CPU backend merges, but a branch stays: here on whether all
    of the first array is NaN, as the results are. On an accelerator XLA weighs what merging costs, and a branch would take as
    much time as several layers.
    """
    if first is None or first.size == 0 or on_accelerator():
        return fn

    def nan(*arrays: Array | None) -> Any:
        return jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), arrays[:results])

    return partial(jax.lax.cond, jnp.any(first == first), fn, nan)


def materialize(x: Array) -> Array:
    """x, computed before it is used. Else a GPU would merge sums along two axes into one, of nine terms instead of six."""
    return jax.lax.optimization_barrier(x) if on_accelerator() else x


def tree_barrier(fn: Callable[..., Any], *trees: Any) -> Any:
    """`fusion_barrier` for arguments and results that are trees of arrays."""
    if on_accelerator():
        return jax.lax.optimization_barrier(fn(*jax.lax.optimization_barrier(trees)))
    shapes = jax.eval_shape(fn, *trees)
    # of the last tree, which is what changes; large constants before it would be looked at while compiling
    leaves = [leaf for leaf in jax.tree.leaves(trees[::-1]) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    first = next(leaf for leaf in leaves if leaf.size)

    def nan(*trees: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)

    return jax.lax.cond(jnp.any(first == first), fn, nan, *trees)


def derivative(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The derivative of a function that acts element by element."""
    return lambda t: jax.jvp(fn, (t,), (jnp.ones_like(t),))[1]
