"""Polynomials: their Hermite expansion is finite, so k = sum of r_l(a) r_l(b) c^l is exact at any radius."""

from abc import abstractmethod
from math import factorial, sqrt

import equinox as eqx
import jax.numpy as jnp

from ..hermite import series
from ..numerics import polynomial
from .base import Activation
from .rectified import whole_degree


class _Finite(Activation):
    """An activation given by its ascending coefficients.

    r_l(a) = sum over i of coef_{l+2i} (l+2i)! / (2^i i! sqrt(l!)) a^{l+2i}; the slope is the dual of the derivative.
    """

    @abstractmethod
    def coefficients(self):
        """The ascending coefficients."""

    def fn(self, t):
        return polynomial(self.coefficients(), t)

    def k(self, a, b, c):
        return _dual(self.coefficients(), a, b, c)

    def k_slope(self, a, b, c):
        return _dual([n * x for n, x in enumerate(self.coefficients())][1:] or [0.0], a, b, c)

    def radial(self, std, degree):
        r = _radial(self.coefficients(), std)[: degree + 1]
        return jnp.stack(r + [jnp.zeros_like(std)] * (degree + 1 - len(r)), axis=-1)


def _radial(coefficients, std):
    size = len(coefficients)
    total = [jnp.zeros_like(std)] * size
    for l in range(size):
        for n in range(l, size, 2):
            i = (n - l) // 2
            weight = factorial(n) / (2**i * factorial(i) * sqrt(factorial(l)))
            total[l] = total[l] + coefficients[n] * weight * std**n
    return total


def _dual(coefficients, a, b, c):
    r1, r2 = (jnp.stack(_radial(coefficients, std), axis=-1) for std in (a, b))
    return series(r1, r2, c)


class Polynomial(_Finite):
    """coef[0] + coef[1] t + coef[2] t^2 + ..."""

    coef: tuple[float, ...] = eqx.field(converter=tuple)

    def __check_init__(self):
        if not self.coef:
            raise ValueError("Polynomial needs at least one coefficient, lowest degree first, and got none.")

    def coefficients(self):
        return self.coef


class Monomial(_Finite):
    """t^degree."""

    degree: int = eqx.field(static=True)

    def __check_init__(self):
        whole_degree(self)

    def coefficients(self):
        return [0.0] * self.degree + [1.0]


class Hermite(_Finite):
    """The probabilists' Hermite polynomial He_degree, not normalised: E[He_n(t)^2] = n!."""

    degree: int = eqx.field(static=True)

    def __check_init__(self):
        whole_degree(self)

    def coefficients(self):
        below, here = [1.0], [0.0, 1.0]
        for n in range(1, self.degree + 1):
            shifted = [0.0, *here]
            below, here = here, [x - n * (below[i] if i < len(below) else 0.0) for i, x in enumerate(shifted)]
        return below
