"""Hermite expansions whose coefficients follow the radius.

For t standard normal, r_l(a) = E[f(a t) h_l(t)] with h_l the normalised Hermite polynomial, and for two Gaussian
variables with standard deviations a, b and cosine c

    E[f(u) f(v)] = sum over l of r_l(a) r_l(b) c^l.

Every kernel of the library has this form: it is what the random features sketch, and where the sum converges fast it
is also the quickest way to the exact kernel.
"""

from collections.abc import Callable
from functools import lru_cache
from math import pi, prod, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics import legendre, safe_divide

Scalar = Callable[[Array], Array]


def _reach(degree: int) -> float:
    """The distance from 0 beyond which polynomials of this degree vanish under the Gaussian weight."""
    return max(9.0, 6.5 + 0.9 * (2 * degree) ** 0.5)


def hermite(degree: int, t: Any) -> list[Any]:
    """The normalised Hermite polynomials h_0 .. h_degree at t, by their stable three-term recurrence."""
    values = [t * 0 + 1, t]
    for n in range(1, degree):
        values.append((t * values[n] - n**0.5 * values[n - 1]) / (n + 1) ** 0.5)
    return values[: degree + 1]


def hermite_weight(even: int) -> float:
    """(m - 1)!! / sqrt(m!) for even m, as a product that cannot overflow."""
    return sqrt(prod((2 * i - 1) / (2 * i) for i in range(1, even // 2 + 1)))


@lru_cache
def rule(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Points t and the matrix of weights w_i h_l(t_i) that integrate against h_0 .. h_degree.

    The line is split at 0, where activations have their kinks, and t = R x^2 draws the points of each half towards it.
    """
    x, w = legendre(96 + degree // 2)
    reach = _reach(degree)
    half, weight = reach * x**2, 2 * reach * x * w
    t = np.concatenate([-half[::-1], half])
    density = np.concatenate([weight[::-1], weight]) * np.exp(-t * t / 2) / sqrt(2 * pi)
    return t, np.stack(hermite(degree, t)) * density


def radial(fn: Scalar, std: Array, degree: int, kinks: tuple[float, ...] = (0.0,)) -> Array:
    """r_0(a) .. r_degree(a) of a function by quadrature, in a new last axis."""
    if any(kinks):
        return _radial_with_moving_kinks(fn, std, degree, kinks)
    t, matrix = rule(degree)
    values = fn(std[..., None] * jnp.asarray(t, std.dtype))
    return jnp.matmul(values, jnp.asarray(matrix.T, std.dtype), precision="highest")


def _radial_with_moving_kinks(fn: Scalar, std: Array, degree: int, kinks: tuple[float, ...]) -> Array:
    """`radial` with the line split at every kink / a. The points depend on a, so the polynomials are evaluated for each."""
    reach = _reach(degree)
    x, w = (jnp.asarray(v, std.dtype) for v in legendre(96 + degree))
    cuts = jnp.asarray(sorted({*kinks, 0.0}), std.dtype)
    inner = jnp.clip(safe_divide(cuts, std[..., None]), -reach, reach)
    ends = jnp.full_like(inner[..., :1], reach)
    edges = jnp.concatenate([-ends, inner, ends], axis=-1)
    length = jnp.diff(edges)[..., None]
    t = edges[..., :-1, None] + length * x
    # The Gaussian weight is halved between the function and the polynomials, which overflow float32 without it.
    bell = jnp.exp(-t * t / 4)
    weighted = fn(std[..., None, None] * t) * w * length * bell / sqrt(2 * pi)

    def step(carry: tuple[Array, Array], n: Array) -> tuple[tuple[Array, Array], Array]:
        below, here = carry
        above = (t * here - jnp.sqrt(n) * below) / jnp.sqrt(n + 1)
        return (here, above), jnp.sum(weighted * here, axis=(-2, -1))

    degrees = jnp.arange(degree + 1, dtype=std.dtype)
    _, r = jax.lax.scan(step, (jnp.zeros_like(t), bell), degrees)
    return jnp.moveaxis(r, 0, -1)


def derivative_coefficients(r: Float[Array, "*a l"], std: Float[Array, "*a"]) -> Array:
    """r'_l(a) = sqrt(l + 1) r_{l+1}(a) / a of the derivative of a continuous function; 0 where a is."""
    order = jnp.sqrt(jnp.arange(1, r.shape[-1], dtype=std.dtype))
    return order * safe_divide(r[..., 1:], std[..., None])


def series(r1: Float[Array, "*a l"], r2: Float[Array, "*b l"], c: Float[Array, "*c"]) -> Array:
    """The sum of r1_l r2_l c^l, by Horner's rule from the highest degree down."""
    terms = jnp.moveaxis(r1, -1, 0)[::-1], jnp.moveaxis(r2, -1, 0)[::-1]
    start = jnp.zeros(jnp.broadcast_shapes(c.shape, r1.shape[:-1], r2.shape[:-1]), c.dtype)
    return jax.lax.scan(lambda total, r: (total * c + r[0] * r[1], None), start, terms, unroll=4)[0]
