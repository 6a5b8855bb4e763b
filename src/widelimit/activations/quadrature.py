"""E[f(u) g(v)] for any functions f and g, accurate to rounding wherever possible; k(a, b, c) has g = f.

Three roads, chosen for each call by what the standard deviations of the call allow:

* `hermite.series`, when the energy that the truncated series leaves out, known exactly on the diagonal, is below the
  tolerance: a few dozen multiplications a pair;
* `sectors`, for functions whose only kink is at 0. In polar coordinates of the whitened plane u = a r cos t and
  v = b r cos(t - theta), so the kinks lie on rays, and between the rays u = 0 and v = 0 the integrand is smooth;
* `strips`, for kinks anywhere. With (u/a, v/b) = C p +- S m, C = cos(theta/2), S = sin(theta/2) and p, m independent,
  every kink is a line in the (m, p) plane with slope at most 1. The inner integral over p is split at these lines, and
  what it leaves is a smooth function of m but where two lines cross: the outer integral is split there. Nothing in it
  becomes sharp as c approaches 1 or -1. (The plain order of integration, u first and v given u after it, has a
  boundary layer of width sqrt(1 - c^2) around every kink of v.)

A sharp but smooth function, such as tanh(a t) with a large, has its kink-like bend at 0: rays are drawn towards u = 0 and
v = 0, and each is cut where the functions have bent.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from math import pi, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from ..numerics import angle, derivative, graded_rule, legendre, safe_divide, safe_sqrt
from .hermite import Scalar, rule, series

_REACH = 9.0  # the Gaussian weight beyond is below 1e-17
_BEND = 8.0  # how far from 0 a smooth function is supposed to bend


class _Effort(NamedTuple):
    """How much work is spent in one precision."""

    degrees: tuple[int, ...]  # of the attempts at the series
    tolerance: float  # on the energy that the series leaves out, as a share of the whole
    noise: float  # of that energy, a difference, in this precision
    nodes: int  # of the rules, in either direction
    power: int  # with which they are drawn towards the bends; whole, or the integrand is no longer smooth there


_EFFORTS = {True: _Effort((56, 288, 480), 1e-13, 2e-13, 64, 3), False: _Effort((24, 64, 160), 1e-6, 4e-6, 40, 2)}


def expectation(fn: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array, continuous: bool) -> Array:
    """E[f(u) f(v)].

    If `fn` is continuous, and no parameters in it are to be differentiated, derivatives are expectations too. Otherwise
    JAX takes them through the sums, whose nodes move with the kinks: right for any function, and slow to compile.
    """
    return (_continuous if continuous else _expectation)(fn, fn, kinks, a, b, c)


def _expectation(f: Scalar, g: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array) -> Array:
    """E[f(u) g(v)] by the cheapest road that is accurate for every pair of this call."""
    effort = _EFFORTS[c.dtype == jnp.float64]
    method: Callable[..., Any] = strips if any(kinks) else sectors

    def by_quadrature() -> Array:
        pairs = jnp.broadcast_arrays(a, b, c)
        return method(f, g, kinks, *pairs, nodes=effort.nodes, power=effort.power)

    def by_series(*degrees: int) -> Array:
        if not degrees:
            return by_quadrature()
        r1, r2, enough = _expand_both(f, g, a, b, degrees[0], effort)
        return jax.lax.cond(enough, lambda: series(r1, r2, c), lambda: by_series(*degrees[1:]))

    return by_series(*effort.degrees)


_continuous = jax.custom_jvp(_expectation, nondiff_argnums=(0, 1, 2))


@partial(_continuous.defjvp, symbolic_zeros=True)
def _continuous_jvp(
    f: Scalar, g: Scalar, kinks: tuple[float, ...], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    """With u = a t: d/da E[f(u) g(v)] = E[t f'(u) g(v)] = E[u f'(u) g(v)] / a, and d/dc = a b E[f'(u) g'(v)] (Price, 1958)."""
    a, b, c = primals
    da, db, dc = (None if isinstance(d, SymbolicZero) else d for d in tangents)
    value = _continuous(f, g, kinks, a, b, c)
    change = jnp.zeros_like(value)
    expected = _expectation if kinks else _continuous  # f' may jump at a kink
    if da is not None:
        change += safe_divide(da, a) * expected(_radial_part(f), g, kinks, a, b, c)
    if db is not None:
        change += safe_divide(db, b) * expected(f, _radial_part(g), kinks, a, b, c)
    if dc is not None:
        change += a * b * dc * expected(derivative(f), derivative(g), kinks, a, b, c)
    return value, change


def _radial_part(fn: Scalar) -> Scalar:
    """t f'(t)."""
    slope = derivative(fn)
    return lambda t: t * slope(t)


def _expand_both(f: Scalar, g: Scalar, a: Array, b: Array, degree: int, effort: _Effort) -> tuple[Array, Array, Array]:
    """The coefficients of f at a and of g at b, and whether both are enough; in one piece, which compiles faster."""
    if f is not g:
        (r1, enough1), (r2, enough2) = _expand(f, a, degree, effort), _expand(g, b, degree, effort)
        return r1, r2, enough1 & enough2
    if a is b:
        r, enough = _expand(f, a, degree, effort)
        return r, r, enough
    r, enough = _expand(f, jnp.concatenate([a.ravel(), b.ravel()]), degree, effort)
    return r[: a.size].reshape(*a.shape, -1), r[a.size :].reshape(*b.shape, -1), enough


def _expand(fn: Scalar, std: Array, degree: int, effort: _Effort) -> tuple[Array, Array]:
    """The coefficients r_l of every entry of `std`, and whether what they leave out is negligible for all.

    What is left out is the energy less the sum of r_l^2, as far as rounding lets it be seen. Below that, it is judged by
    the last tenth of the coefficients: with the slowest decay there is, r_l^2 ~ l^(-3/2) of a jump, 20 times their sum.
    """
    t, matrix = rule(degree)
    values = fn(std[..., None] * jnp.asarray(t, std.dtype))
    r = jnp.matmul(values, jnp.asarray(matrix.T, std.dtype), precision="highest")
    energy = jnp.matmul(values**2, jnp.asarray(matrix[0], std.dtype), precision="highest")
    left, last = energy - jnp.sum(r**2, -1), jnp.sum(r[..., -(degree // 10) :] ** 2, -1)
    converged = (abs(left) <= effort.noise * energy) & (20 * last <= effort.tolerance * energy)
    # At a large radius a bump of the function can fall between the nodes: no energy is no evidence.
    return r, jnp.all(converged & ((energy > 0) | (std == 0)))


def _total(term: Callable[..., Any], nodes: tuple[Any, ...], like: Array) -> Array:
    """The sum of term(*node) over nodes, given as equally long arrays: one pass over the pairs for each."""
    nodes = tuple(jnp.asarray(v, like.dtype) for v in nodes)
    return jax.lax.scan(lambda sum, node: (sum + term(*node), None), jnp.zeros_like(like), nodes)[0]


def sectors(
    f: Scalar, g: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array, nodes: int, power: int
) -> Array:
    """E[f(u) g(v)] for functions that are smooth on either side of 0.

    In the sector where u and v are positive, of width w = pi - theta, u = a r sin(w (1 - x)) and v = b r sin(w x) with x
    from 0 to 1; where u is negative and v positive, u = -a r sin(w x) and v = b r sin(w (1 - x)) with w = theta. The
    other two sectors are these with both signs turned.
    """
    x, w = graded_rule(nodes, power)
    y, v = legendre(nodes * 5 // 8)

    def sector(width: Array, sign: float) -> Array:
        def ray(x: Array, mirrored: Array, w: Array) -> Array:
            p, q = sign * a * jnp.sin(width * mirrored), b * jnp.sin(width * x)
            # Along a ray the functions bend within |t| < _BEND: first both do, then one, then none.
            speeds = jnp.minimum(abs(p), q), jnp.maximum(abs(p), q)
            near, far = (jnp.minimum(_REACH, _BEND / jnp.maximum(s, _BEND / _REACH)) for s in speeds[::-1])
            ends = jnp.stack([jnp.zeros_like(near), near, far, jnp.full_like(near, _REACH)])

            def piece(low: Array, high: Array) -> Array:
                def point(y: Array, v: Array) -> Array:
                    r = low + (high - low) * y
                    return v * r * jnp.exp(-r * r / 2) * (f(r * p) * g(r * q) + f(-r * p) * g(-r * q))

                return (high - low) * _total(point, (y, v), c)

            return w * _total(piece, (ends[:-1], ends[1:]), c)

        return width * _total(ray, (x, x[::-1], w), c)

    return (sector(angle(-c), 1.0) + sector(angle(c), -1.0)) / (2 * pi)


def strips(
    f: Scalar, g: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array, nodes: int, power: int
) -> Array:
    """E[f(u) g(v)] for functions that are smooth between `kinks`.

    Where c < 0 the pair is reflected, v to -v, so that S <= C and no line is steeper than 1. Both integrals are also
    split at 0, for the sake of the Gaussian weight.
    """
    flip = jnp.where(c < 0, -1, 1).astype(c.dtype)
    along, across = safe_sqrt((1 + abs(c)) / 2), safe_sqrt((1 - abs(c)) / 2)
    lines_u = [kink / jnp.where(a > 0, a, 1) for kink in kinks]
    lines_v = [flip * kink / jnp.where(b > 0, b, 1) for kink in kinks]

    def cut(points: list[Array]) -> tuple[Array, Array]:
        """The lower and the upper ends of the pieces into which these points divide [-reach, reach]."""
        inner = _sort([jnp.zeros_like(c), *(jnp.clip(point, -_REACH, _REACH) for point in points)])
        end = jnp.full((1, *c.shape), _REACH, c.dtype)
        ends = jnp.concatenate([-end, inner, end])
        return ends[:-1], ends[1:]

    def crossing(p: Array, q: Array) -> Array:
        gap = (p - q) / 2
        return jnp.where(gap == 0, 0, gap / jnp.maximum(across, jnp.finfo(c.dtype).tiny))

    def density(t: Array) -> Array:
        return jnp.exp(-t * t / 2) / sqrt(2 * pi)

    x, w = legendre(nodes // 2)
    y, v = legendre(3 * nodes // 8)

    def strip(low: Array, high: Array) -> Array:
        def line(x: Array, w: Array) -> Array:
            m = low + (high - low) * x
            shift = across * m
            pieces = cut([(p - shift) / along for p in lines_u] + [(p + shift) / along for p in lines_v])

            def piece(low: Array, high: Array) -> Array:
                def point(y: Array, v: Array) -> Array:
                    p = low + (high - low) * y
                    return v * density(p) * f(a * (along * p + shift)) * g(flip * b * (along * p - shift))

                return (high - low) * _total(point, (y, v), c)

            return w * density(m) * _total(piece, pieces, c)

        return (high - low) * _total(line, (x, w), c)

    return _total(strip, cut([crossing(p, q) for p, q in product(lines_u, lines_v)]), c)


def _sort(arrays: list[Array]) -> Array:
    """Arrays sorted entry by entry; a few by insertion with minimum and maximum, which fuses where a sort would not."""
    if len(arrays) > 6:
        return jnp.sort(jnp.stack(arrays), axis=0)
    result: list[Array] = []
    for array in arrays:
        rest = []
        for other in result:
            rest.append(jnp.minimum(other, array))
            array = jnp.maximum(other, array)
        result = [*rest, array]
    return jnp.stack(result)
