"""Exponential units.

Their dual is one integral, since the inner Gaussian average has a closed form.

k = int phi(x) f(a x) S(b c x, b s) dx with S(m, tau) = E[f(m + tau z)], and the same with the slopes. What S needs is
G(m, tau) = E[exp(v); v < 0] for v normal, which is erfcx in the range where exp overflows and Phi in the other. (The
bivariate closed form needs more digits than float64 has from radius 4 on.)
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from math import pi, sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..numerics import erfcx, legendre, sine
from ..storage.module import parameter
from .base import Activation, Evaluation, Parameter
from .hermite import Scalar, radial

_POWER = 4  # x = 9 y^4 draws the nodes to 0, where S(b c x, b s) bends within a width of s
_LAMBDA, _ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al., 2017


def _gaussian(m: Array, tau: Array) -> tuple[Array, Array, Array, Array]:
    """For v normal with mean m and deviation tau: its density at 0 times tau, P(v > 0), P(v < 0), and G = E[exp(v); v < 0].

    All from erfcx, a polynomial and a division: P(v < 0) = exp(-t^2 / 2) erfcx(t / sqrt(2)) / 2 for t = m / tau > 0.
    """
    t = jnp.clip(m / tau, -1e3, 1e3)  # beyond, the density is 0 in any precision
    bell = jnp.exp(-t * t / 2)
    tail = bell * erfcx(abs(t) / sqrt(2)) / 2
    above, below = jnp.where(t > 0, 1 - tail, tail), jnp.where(t > 0, tail, 1 - tail)
    z = t + tau
    right = bell * erfcx(abs(z) / sqrt(2)) / 2
    left = jnp.exp(jnp.minimum(m + tau**2 / 2, 0)) - right  # for z < 0, where erfcx(z) = 2 exp(z^2) - erfcx(-z)
    return bell / sqrt(2 * pi), above, below, jnp.where(z > 0, right, left)


def _mean(alpha: Parameter, m: Array, tau: Array) -> Array:
    density, above, below, part = _gaussian(m, tau)
    # E[exp(v) - 1; v < 0]: for small v the two parts cancel, and the moments E[v^n; v < 0] / n! are summed instead.
    moments = [below, m * below - tau * density]
    for n in range(2, 13):
        moments.append((m * moments[n - 1] + tau**2 * moments[n - 2]) / n)
    small = (abs(m) < 0.3) & (tau < 0.03)
    return m * above + tau * density + alpha * jnp.where(small, sum(moments[1:]), part - below)


def _mean_slope(alpha: Parameter, m: Array, tau: Array) -> Array:
    _, above, _, part = _gaussian(m, tau)
    return above + alpha * part


def _average(outer: Scalar, inner: Callable[[Array, Array], Array], a: Array, b: Array, c: Array) -> Array:
    """The integral of phi(x) outer(a x) inner(b c x, b s) over both half-lines."""
    y, w = legendre(96 if c.dtype == jnp.float64 else 40)
    half = 9 * y**_POWER
    weight = 9 * _POWER * y ** (_POWER - 1) * w * np.exp(-half * half / 2) / sqrt(2 * pi)
    nodes = (jnp.asarray(np.concatenate(v), c.dtype) for v in ([-half, half], [weight, weight]))
    tau = jnp.maximum(b * sine(c), jnp.finfo(c.dtype).tiny ** 0.5)
    start = jnp.zeros(jnp.broadcast_shapes(a.shape, b.shape, c.shape), c.dtype)

    def node(total: Array, point: tuple[Array, ...]) -> tuple[Array, None]:
        x, weight = point
        return total + weight * outer(a * x) * inner(b * c * x, tau), None

    return jax.lax.scan(node, start, tuple(nodes))[0]


class _Exponential(Activation):
    """scale * (t if t > 0 else alpha (exp(t / width) - 1)), in units of the width."""

    @property
    def evaluation(self) -> Evaluation:
        return "one integral"

    def bends(self) -> tuple[float, ...]:
        return (0.0,)

    @abstractmethod
    def constants(self) -> tuple[Parameter, Parameter, Parameter]:
        """The scale, alpha and width."""

    def fn(self, t: Array) -> Array:
        scale, alpha, width = self.constants()
        return scale * (jnp.maximum(t, 0) + alpha * width * jnp.expm1(jnp.minimum(t, 0) / width))

    def k(self, a: Array, b: Array, c: Array) -> Array:
        scale, alpha, width = self.constants()

        def unit(t: Array) -> Array:
            return jnp.where(t > 0, t, alpha * jnp.expm1(jnp.minimum(t, 0)))

        return (scale * width) ** 2 * _average(unit, partial(_mean, alpha), a / width, b / width, c)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        scale, alpha, width = self.constants()

        def unit(t: Array) -> Array:  # at the kink itself, where a zero row is, the mean of both sides
            return jnp.where(t > 0, 1, jnp.where(t < 0, alpha * jnp.exp(jnp.minimum(t, 0)), (1 + alpha) / 2))

        return scale**2 * _average(unit, partial(_mean_slope, alpha), a / width, b / width, c)

    def r(self, std: Array, degree: int) -> Array:
        return radial(self.fn, std, degree)


class Elu(_Exponential):
    """t, or alpha (exp(t) - 1) below 0."""

    alpha: Parameter = parameter(default=1.0)

    def constants(self) -> tuple[Parameter, Parameter, Parameter]:
        return 1.0, self.alpha, 1.0


class Selu(_Exponential):
    """1.0507 Elu(1.6733). The self-normalising unit of Klambauer et al. (2017)."""

    def constants(self) -> tuple[Parameter, Parameter, Parameter]:
        return _LAMBDA, _ALPHA, 1.0


class Celu(_Exponential):
    """t, or alpha (exp(t / alpha) - 1) below 0."""

    alpha: Parameter = parameter(default=1.0)

    def __check_init__(self) -> None:
        if isinstance(self.alpha, float) and not self.alpha > 0:
            raise ValueError(f"Celu divides by its alpha, which must be above 0, not {self.alpha!r}.")

    def constants(self) -> tuple[Parameter, Parameter, Parameter]:
        return 1.0, 1.0, self.alpha
