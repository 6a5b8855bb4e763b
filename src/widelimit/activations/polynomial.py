"""Polynomials.

Their Hermite expansion is finite, so k = sum of r_l(a) r_l(b) c^l is exact at any radius.

A power of a large radius overflows where its product with the power of a small one does not. So the coefficients are
kept in units of a^lowest max(a, 1)^(degree - lowest), in which they stay of order one, and the units are multiplied in
at the end, one by one.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from math import factorial, sqrt

import jax.numpy as jnp
from jaxtyping import Array

from ..numerics import polynomial, spread
from ..numerics.checks import check_number
from ..storage.module import static_degree
from .base import Activation
from .hermite import hermite, series


class _Finite(Activation):
    """An activation whose expansion ends."""

    @abstractmethod
    def powers(self) -> tuple[int, int]:
        """The lowest and the highest power of t that occur."""

    @abstractmethod
    def scaled(self, small: Array, large: Array) -> list[Array]:
        """r_l(a) / (a^lowest max(a, 1)^(highest - lowest)) for l = 0 .. highest, from min(a, 1) and max(a, 1)."""

    def k(self, a: Array, b: Array, c: Array) -> Array:
        lowest, highest = self.powers()
        large = jnp.maximum(a, 1), jnp.maximum(b, 1)
        r1, r2 = (jnp.stack(self.scaled(jnp.minimum(s, 1), l), -1) for s, l in zip((a, b), large, strict=True))
        value = series(r1, r2, c) * (a * b) ** lowest
        for _ in range(highest - lowest):
            value = value * large[0] * large[1]
        return value

    def r(self, std: Array, degree: int) -> Array:
        lowest, highest = self.powers()
        large = jnp.maximum(std, 1)
        unit = std**lowest * large ** (highest - lowest)
        r = [unit * value for value in self.scaled(jnp.minimum(std, 1), large)[: degree + 1]]
        return jnp.stack(r + [jnp.zeros_like(std)] * (degree + 1 - len(r)), axis=-1)


def _scaled_sums(coefficients: Sequence[float], lowest: int, small: Array, large: Array) -> list[Array]:
    """The sum over n = l + 2i of coef_n n! / (2^i i! sqrt(l!)) a^n, in the units of `_Finite.scaled`."""
    highest = len(coefficients) - 1
    total = [jnp.zeros_like(small)] * len(coefficients)
    for n in range(lowest, highest + 1):
        power = coefficients[n] * small ** (n - lowest) * (1 / large) ** (highest - n)
        for i in range(n // 2 + 1):
            l = n - 2 * i
            total[l] = total[l] + factorial(n) / (2**i * factorial(i) * sqrt(factorial(l))) * power
    return total


class Polynomial(_Finite):
    """The sum of coef[l] t^l, lowest degree first."""

    coef: tuple[float, ...]

    def __init__(self, coef: Iterable[float]):
        try:
            self.coef = tuple(map(check_number, coef))
        except TypeError:
            raise TypeError(
                f"Polynomial takes its coefficients, lowest degree first, such as (0.5, 0.0, 1.0), not {coef!r}."
            ) from None
        if not self.coef:
            raise ValueError("Polynomial needs at least one coefficient, lowest degree first, and got none.")

    def fn(self, t: Array) -> Array:
        return polynomial(self.coef, t)

    def powers(self) -> tuple[int, int]:
        return 0, len(self.coef) - 1

    def scaled(self, small: Array, large: Array) -> list[Array]:
        return _scaled_sums(self.coef, 0, small, large)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        slope = tuple(n * x for n, x in enumerate(self.coef))[1:]
        return Polynomial(slope or (0.0,)).k(a, b, c)


class Monomial(_Finite):
    """t^degree."""

    degree: int = static_degree(most=100)

    def fn(self, t: Array) -> Array:
        return t**self.degree

    def powers(self) -> tuple[int, int]:
        return self.degree, self.degree

    def scaled(self, small: Array, large: Array) -> list[Array]:
        return _scaled_sums([0.0] * self.degree + [1.0], self.degree, small, large)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return _lower(self, a, b, c)


class Hermite(_Finite):
    """The probabilists' Hermite polynomial He_degree, not normalised. E[He_n(t)^2] = n!.

    r_{n-2i}(a) = n! / (2^i i! sqrt((n - 2i)!)) a^(n-2i) (a^2 - 1)^i; the slope is n^2 times the dual of He_{n-1}.
    """

    degree: int = static_degree(most=100)

    def fn(self, t: Array) -> Array:
        return sqrt(factorial(self.degree)) * hermite(self.degree, t)[self.degree]

    def powers(self) -> tuple[int, int]:
        return self.degree % 2, self.degree

    def scaled(self, small: Array, large: Array) -> list[Array]:
        n, inverse = self.degree, 1 / large
        excess = (small - inverse) * (small + inverse)  # (a^2 - 1) / max(a, 1)^2
        total = [jnp.zeros_like(small)] * (n + 1)
        for i in range(n // 2 + 1):
            weight = factorial(n) / (2**i * factorial(i) * sqrt(factorial(n - 2 * i)))
            total[n - 2 * i] = weight * small ** (n - 2 * i - n % 2) * excess**i
        return total

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return _lower(self, a, b, c)


def _lower(activation: "Monomial | Hermite", a: Array, b: Array, c: Array) -> Array:
    """The slope of a family in which the derivative of degree n is n times degree n - 1."""
    n = activation.degree
    if n == 0:
        return spread(jnp.zeros_like(c), a, b)
    return n**2 * type(activation)(n - 1).k(a, b, c)
