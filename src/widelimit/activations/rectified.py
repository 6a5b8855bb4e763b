"""Piecewise powers.

They break at 0 and are positively homogeneous, so k(a, b, c) = (a b)^n kappa(c).

With theta = arccos(c), s = sin(theta): the rectified powers have k = (a b)^n J_n / (2 pi) with (Cho & Saul, 2009)
J_0 = pi - theta, J_1 = s + (pi - theta) c, and dJ_n/dc = n^2 J_{n-1}.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from math import factorial, gamma, pi, prod, sqrt

import jax.numpy as jnp
from jaxtyping import Array

from ..numerics import angle, polynomial, safe_divide, sine, spread
from ..storage.module import parameter, static_degree
from .base import Activation, Parameter
from .hermite import hermite_weight


def constants(values: Sequence[float], std: Array) -> Array:
    """These coefficients for every entry of `std`, in a new last axis."""
    return jnp.ones_like(std)[..., None] * jnp.stack([jnp.asarray(v, std.dtype) for v in values])


class _TwoSlopes(Activation):
    """A min(t, 0) + B max(t, 0). With D = B - A: k = a b (D^2 J_1 / (2 pi) + A B c), slope D^2 J_0 / (2 pi) + A B."""

    def bends(self) -> tuple[float, ...]:
        return (0.0,)

    @abstractmethod
    def slopes(self) -> tuple[Parameter, Parameter]:
        """The slopes A on the left and B on the right of 0."""

    def fn(self, t: Array) -> Array:
        low, high = self.slopes()
        return low * jnp.minimum(t, 0) + high * jnp.maximum(t, 0)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        low, high = self.slopes()
        return a * b * ((high - low) ** 2 / (2 * pi) * (sine(c) + angle(-c) * c) + low * high * c)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        low, high = self.slopes()
        return spread((high - low) ** 2 / (2 * pi) * angle(-c) + low * high, a, b)

    def r(self, std: Array, degree: int) -> Array:
        low, high = self.slopes()
        r = [std * ((high - low) * rectified_coefficient(1, l) + low * (l == 1)) for l in range(degree + 1)]
        return jnp.stack(r, axis=-1)


class Relu(_TwoSlopes):
    """max(t, 0)."""

    def slopes(self) -> tuple[Parameter, Parameter]:
        return 0.0, 1.0


class LeakyRelu(_TwoSlopes):
    """t, or alpha t below 0."""

    alpha: Parameter = parameter()

    def slopes(self) -> tuple[Parameter, Parameter]:
        return self.alpha, 1.0


class ABRelu(_TwoSlopes):
    """a min(t, 0) + b max(t, 0). `a` is the slope below 0."""

    a: Parameter = parameter()
    b: Parameter = parameter()

    def slopes(self) -> tuple[Parameter, Parameter]:
        return self.a, self.b


class Abs(_TwoSlopes):
    """|t|."""

    def slopes(self) -> tuple[Parameter, Parameter]:
        return -1.0, 1.0


class Sign(Activation):
    """The sign of t, whose slope is 0 by convention. k = 1 - 2 theta / pi; the delta functions of the slope are left out."""

    def bends(self) -> tuple[float, ...]:
        return (0.0,)

    def fn(self, t: Array) -> Array:
        return jnp.sign(t)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        return _jump(4.0, -1.0, a, b, c)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return spread(jnp.zeros_like(c), a, b)

    def k_derivative(self, a: Array, b: Array, c: Array) -> Array:
        return _jump_derivative(4.0, a, b, c)

    def r(self, std: Array, degree: int) -> Array:
        return constants([2 * rectified_coefficient(0, l) - (l == 0) for l in range(degree + 1)], std)

    def r_slope(self, std: Array, degree: int) -> Array:
        return constants([0.0] * (degree + 1), std)

    @property
    def continuous(self) -> bool:
        return False


class RectifiedMonomial(Activation):
    """max(t, 0)^degree. Degree 0 is the step, whose slope is 0 by convention."""

    degree: int = static_degree(most=50)

    def bends(self) -> tuple[float, ...]:
        return (0.0,)

    def fn(self, t: Array) -> Array:
        return jnp.heaviside(t, 0.5) if self.degree == 0 else jnp.maximum(t, 0) ** self.degree

    def k(self, a: Array, b: Array, c: Array) -> Array:
        if self.degree == 0:
            return _jump(1.0, 0.0, a, b, c)
        return (a * b) ** self.degree * _arc_cosine(self.degree, c)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        n = self.degree
        if n == 0:
            return spread(jnp.zeros_like(c), a, b)
        return n**2 * (a * b) ** (n - 1) * _arc_cosine(n - 1, c)

    def k_derivative(self, a: Array, b: Array, c: Array) -> Array:
        return _jump_derivative(1.0, a, b, c) if self.degree == 0 else self.k_slope(a, b, c)

    def r(self, std: Array, degree: int) -> Array:
        r = [rectified_coefficient(self.degree, l) for l in range(degree + 1)]
        return std[..., None] ** self.degree * constants(r, std)

    def r_slope(self, std: Array, degree: int) -> Array:
        return super().r_slope(std, degree) if self.degree else constants([0.0] * (degree + 1), std)

    @property
    def continuous(self) -> bool:
        return self.degree > 0


def _jump(scale: float, offset: float, a: Array, b: Array, c: Array) -> Array:
    """The dual of a step of height sqrt(scale): scale (pi - theta) / (2 pi) + offset."""
    return spread(scale * angle(-c) / (2 * pi) + offset, a, b)


def _jump_derivative(scale: float, a: Array, b: Array, c: Array) -> Array:
    """The derivative of `_jump` in cov, 1 / (a b s) up to scale; 0 at c = +-1, where it is infinite."""
    return scale / (2 * pi) * safe_divide(safe_divide(safe_divide(jnp.ones_like(c), sine(c)), a), b)


@lru_cache
def _arc_cosine_polynomials(n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Integer coefficients of P_n and Q_n in J_n = (pi - theta) P_n(c) + s Q_n(c).

    P_n is the dual of t^n. Q_n follows from P_n - c Q_n + s^2 Q_n' = n^2 s^2 Q_{n-1}, highest coefficient first.
    """
    p = [0] * (n + 1)
    for l in range(n % 2, n + 1, 2):
        i = (n - l) // 2
        p[l] = (factorial(n) // (2**i * factorial(i))) ** 2 // factorial(l)
    if n == 0:
        return (1,), (0,)
    below = [*_arc_cosine_polynomials(n - 1)[1], 0, 0, 0]
    right = [n * n * (below[j] - (below[j - 2] if j >= 2 else 0)) for j in range(n + 1)]
    q = [0] * (n + 2)
    for j in range(n, 0, -1):
        q[j - 1] = (p[j] + (j + 1) * q[j + 1] - right[j]) // j
    return tuple(p), tuple(q[:n])


def _arc_cosine(n: int, c: Array) -> Array:
    """J_n / (2 pi)."""
    p, q = _arc_cosine_polynomials(n)
    return (angle(-c) * polynomial(p, c) + sine(c) * polynomial(q, c)) / (2 * pi)


@lru_cache
def rectified_coefficient(n: int, l: int) -> float:
    """r_l(1) of the rectified power t^n."""
    if l <= n:
        moment = 2 ** ((n - l) / 2 - 1) * gamma((n - l + 1) / 2) / sqrt(pi)
        return factorial(n) / factorial(n - l) * moment / sqrt(factorial(l))
    m = l - n - 1
    if m % 2:
        return 0.0
    # n! h_m(0) / sqrt(2 pi l!) with h_m(0) = (-1)^(m/2) (m - 1)!!, in pieces that stay of order 1.
    falling = prod(sqrt((i + 1) / (m + 1 + i)) for i in range(n)) * sqrt(factorial(n)) / sqrt(l)
    return (-1) ** (m // 2) * hermite_weight(m) * falling / sqrt(2 * pi)
