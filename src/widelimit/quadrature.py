"""k(a, b, c) = E[f(u) f(v)] for any function f, accurate to rounding wherever possible.

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

A sharp but smooth function, such as tanh(a t) with a large, has its kink-like bend at 0: all nodes are drawn towards
the ends of their interval, where the bends are.
"""

from collections.abc import Callable
from itertools import pairwise, product
from math import pi, sqrt
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .hermite import Scalar, rule, series
from .numerics import angle, graded, legendre, safe_sqrt

_REACH = 9.0  # the Gaussian weight beyond is below 1e-17


class _Effort(NamedTuple):
    """How much work is spent in one precision."""

    degrees: tuple[int, ...]  # of the attempts at the series
    tolerance: float  # on the energy that the series leaves out, as a share of the whole
    noise: float  # of that energy, a difference, in this precision
    nodes: int  # of the rules, in either direction
    power: int  # with which they are drawn towards the bends; whole, or the integrand is no longer smooth there


_EFFORTS = {True: _Effort((56, 288, 480), 1e-13, 2e-13, 64, 3), False: _Effort((24, 160), 1e-6, 4e-6, 40, 2)}


def expectation(fn: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array) -> Array:
    """E[f(u) f(v)] by the cheapest road that is accurate for every pair of this call."""
    a, b, c = (jnp.asarray(v) for v in (a, b, c))
    effort = _EFFORTS[c.dtype == jnp.float64]
    method: Callable = strips if any(kinks) else sectors

    def by_quadrature():
        pairs = jnp.broadcast_arrays(a, b, c)
        return method(fn, kinks, *pairs, nodes=effort.nodes, power=effort.power)

    def by_series(*degrees):
        if not degrees:
            return by_quadrature()
        (r1, enough1), (r2, enough2) = (_expand(fn, std, degrees[0], effort) for std in (a, b))
        return jax.lax.cond(enough1 & enough2, lambda: series(r1, r2, c), lambda: by_series(*degrees[1:]))

    return by_series(*effort.degrees)


def _expand(fn: Scalar, std: Array, degree: int, effort: _Effort) -> tuple[Array, Array]:
    """The coefficients r_l of every entry of `std`, and whether what they leave out is negligible for all.

    What is left out is the energy less the sum of r_l^2, as far as rounding lets it be seen. Below that, it is judged by
    the last tenth of the coefficients: with the slowest decay there is, r_l^2 ~ l^(-3/2) of a jump, 20 times their sum.
    """
    t, matrix = rule(degree, 80 + degree // 2)
    values = fn(std[..., None] * jnp.asarray(t, std.dtype))
    r = jnp.matmul(values, jnp.asarray(matrix.T, std.dtype), precision="highest")
    energy = jnp.matmul(values**2, jnp.asarray(matrix[0], std.dtype), precision="highest")
    left, last = energy - jnp.sum(r**2, -1), jnp.sum(r[..., -(degree // 10) :] ** 2, -1)
    return r, jnp.all((abs(left) <= effort.noise * energy) & (20 * last <= effort.tolerance * energy))


def _total(term: Callable, nodes: tuple, like: Array) -> Array:
    """The sum of term(*node) over nodes, given as equally long arrays: one pass over the pairs for each."""
    nodes = tuple(jnp.asarray(v, like.dtype) for v in nodes)
    return jax.lax.scan(lambda sum, node: (sum + term(*node), None), jnp.zeros_like(like), nodes)[0]


def sectors(fn: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array, nodes: int, power: int) -> Array:
    """E[f(u) f(v)] for a function that is smooth on either side of 0.

    In the sector where u and v are positive, of width w = pi - theta, u = a r sin(w (1 - x)) and v = b r sin(w x) with x
    from 0 to 1; where u is negative and v positive, u = -a r sin(w x) and v = b r sin(w (1 - x)) with w = theta. The
    other two sectors are these with both signs turned.
    """
    x, w = graded(nodes, power)
    y, v = legendre(nodes)
    r = _REACH * y**power
    weight = v * power * _REACH * y ** (power - 1) * r * np.exp(-r * r / 2) / (2 * pi)
    like_signs, unlike_signs = angle(-c), angle(c)

    def ray(x, mirrored, w):
        like = a * jnp.sin(like_signs * mirrored), b * jnp.sin(like_signs * x)
        unlike = -a * jnp.sin(unlike_signs * x), b * jnp.sin(unlike_signs * mirrored)

        def point(r, weight):
            first, second = (fn(r * p) * fn(r * q) + fn(-r * p) * fn(-r * q) for p, q in (like, unlike))
            return weight * (like_signs * first + unlike_signs * second)

        return w * _total(point, (r, weight), c)

    return _total(ray, (x, x[::-1], w), c)


def strips(fn: Scalar, kinks: tuple[float, ...], a: Array, b: Array, c: Array, nodes: int, power: int) -> Array:
    """E[f(u) f(v)] for a function that is smooth between `kinks`.

    Where c < 0 the pair is reflected, v to -v, so that S <= C and no line is steeper than 1. Both integrals are also
    split at 0, for the sake of the Gaussian weight.
    """
    flip = jnp.where(c < 0, -1, 1).astype(c.dtype)
    along, across = safe_sqrt((1 + abs(c)) / 2), safe_sqrt((1 - abs(c)) / 2)
    lines_u = [kink / jnp.where(a > 0, a, 1) for kink in kinks]
    lines_v = [flip * kink / jnp.where(b > 0, b, 1) for kink in kinks]

    def cut(points):
        """The ends of the pieces into which these points divide [-reach, reach]."""
        inner = _sorted([jnp.zeros_like(c), *(jnp.clip(point, -_REACH, _REACH) for point in points)])
        end = jnp.full_like(c, _REACH)
        return list(pairwise([-end, *inner, end]))

    def crossing(p, q):
        gap = (p - q) / 2
        return jnp.where(gap == 0, 0, gap / jnp.maximum(across, jnp.finfo(c.dtype).tiny))

    def density(t):
        return jnp.exp(-t * t / 2) / sqrt(2 * pi)

    x, w = legendre(nodes // 2)
    y, v = legendre(3 * nodes // 8)

    def strip(low, high):
        def line(x, w):
            m = low + (high - low) * x
            shift = across * m
            pieces = cut([(p - shift) / along for p in lines_u] + [(p + shift) / along for p in lines_v])

            def point(y, v):
                def piece(low, high):
                    p = low + (high - low) * y
                    values = fn(a * (along * p + shift)) * fn(flip * b * (along * p - shift))
                    return (high - low) * density(p) * values

                return v * sum(piece(*ends) for ends in pieces)

            return w * density(m) * _total(point, (y, v), c)

        return (high - low) * _total(line, (x, w), c)

    outer = cut([crossing(p, q) for p, q in product(lines_u, lines_v)])
    return _total(strip, tuple(jnp.stack(ends) for ends in zip(*outer, strict=True)), c)


def _sorted(arrays: list[Array]) -> list[Array]:
    """A few arrays sorted entry by entry: insertion by minimum and maximum, which fuses where a sort would not."""
    result: list[Array] = []
    for array in arrays:
        rest = []
        for other in result:
            rest.append(jnp.minimum(other, array))
            array = jnp.maximum(other, array)
        result = [*rest, array]
    return result
