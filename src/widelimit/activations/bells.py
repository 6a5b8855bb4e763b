"""Bells and their integrals.

These activations are built of the Gaussian density and its integral. Their duals are smooth functions of cov = a b c, a^2,
b^2 and det = a^2 b^2 (1 - c)(1 + c). The determinant D of the formulas would overflow float32 from radius 1e9 on, so
`_whiten` divides it by its factors.
"""

from abc import abstractmethod
from math import pi, sqrt
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import erf, ndtr
from jaxtyping import Array

from ..numerics import arctan2, derivative
from ..storage.module import parameter
from .base import Activation, Evaluation, Parameter
from .hermite import hermite_weight, radial
from .quadrature import expectation


class _White(NamedTuple):
    """A = sqrt(1 + z a^2) and alpha = sqrt(z) a / A, the same of b, q = D / (A B)^2 and D = 1 + z (a^2 + b^2) + z^2 det."""

    A: Array
    B: Array
    alpha: Array
    beta: Array
    q: Array


def _whiten(z: Parameter, a: Array, b: Array, c: Array) -> _White:
    A, B = jnp.sqrt(1 + z * a**2), jnp.sqrt(1 + z * b**2)
    alpha, beta = (z**0.5 * std / large for std, large in ((a, A), (b, B)))
    # D = A^2 B^2 - z^2 cov^2, without the cancellation
    return _White(A, B, alpha, beta, alpha**2 * (beta**2 * ((1 - c) * (1 + c)) + 1 / B**2) + 1 / A**2)


class _ErrorFunction(Activation):
    """A erf(B t) + C.

    With the radii scaled by |B| and D = 1 + 2 a^2 + 2 b^2 + 4 det: k = A^2 (2/pi) atan2(2 cov, sqrt(D)) + C^2 and the slope
    A^2 B^2 (4/pi) / sqrt(D). r_l(s), l odd: sqrt(2 x / pi) (-x)^((l-1)/2) w_{l-1} / sqrt(l) with x = 2 s^2 / (1 + 2 s^2).
    """

    @abstractmethod
    def scales(self) -> tuple[Parameter, Parameter, Parameter]:
        """A, B and C."""

    def fn(self, t: Array) -> Array:
        height, steepness, offset = self.scales()
        return height * erf(steepness * t) + offset

    def k(self, a: Array, b: Array, c: Array) -> Array:
        height, steepness, offset = self.scales()
        w = _whiten(2 * steepness**2, a, b, c)
        return height**2 * (2 / pi) * arctan2(w.alpha * w.beta * c, jnp.sqrt(w.q)) + offset**2

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        height, steepness, _ = self.scales()
        w = _whiten(2 * steepness**2, a, b, c)
        return (height * steepness) ** 2 * (4 / pi) / w.A / w.B / jnp.sqrt(w.q)

    def r(self, std: Array, degree: int) -> Array:
        height, steepness, offset = self.scales()
        s = steepness * std
        x = 2 * s**2 / (1 + 2 * s**2)
        odd = height * 2 / sqrt(pi) * s / jnp.sqrt(1 + 2 * s**2)

        def coefficient(l: int) -> Array:
            if l % 2 == 0:
                return jnp.full_like(std, offset if l == 0 else 0)
            return odd * (-x) ** ((l - 1) // 2) * hermite_weight(l - 1) / sqrt(l)

        return jnp.stack([coefficient(l) for l in range(degree + 1)], axis=-1)


class Erf(_ErrorFunction):
    """a erf(b t) + c."""

    a: Parameter = parameter(default=1.0)
    b: Parameter = parameter(default=1.0)
    c: Parameter = parameter(default=0.0)

    def scales(self) -> tuple[Parameter, Parameter, Parameter]:
        return self.a, self.b, self.c


class SigmoidLike(_ErrorFunction):
    """(1 + erf(t / 2.4020563531719796)) / 2. The error function nearest to the sigmoid on [-5, 5]."""

    def scales(self) -> tuple[Parameter, Parameter, Parameter]:
        return 0.5, 1 / 2.4020563531719796, 0.5


class Gelu(Activation):
    """t Phi(t), or with `approximate` its usual approximation by tanh. The dual of the approximation is computed.

    D = 1 + a^2 + b^2 + det, P = (1 + a^2)(1 + b^2), T = atan2(cov, sqrt(D)):
    k = cov/4 + (cov^2 + a^2 b^2 D) / (2 pi P sqrt(D)) + cov T / (2 pi);
    slope 1/4 + T / (2 pi) + cov / (2 pi sqrt(D)) (1 + 1/D + (1 - a^2 b^2) / P).
    r_l(a), x = a^2 / (1 + a^2): a sqrt(x / 2 pi), a / 2, then for even l
    a sqrt(x / 2 pi) (-x)^(l/2 - 1) (l - (l - 1) x) w_l / (l - 1).
    """

    approximate: bool = eqx.field(default=False, static=True)

    @property
    def evaluation(self) -> Evaluation:
        return "computed" if self.approximate else "closed"

    def fn(self, t: Array) -> Array:
        return jax.nn.gelu(t, approximate=True) if self.approximate else t * ndtr(t)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        if self.approximate:
            return expectation(self.fn, (), a, b, c, continuous=True)
        w = _whiten(1.0, a, b, c)
        root = jnp.sqrt(w.q)  # of D / P
        middle = (w.alpha * w.beta) ** 2 * (c**2 / root / w.A / w.B + w.A * w.B * root)
        return a * b * c / 4 + (middle + a * b * c * arctan2(w.alpha * w.beta * c, root)) / (2 * pi)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        if self.approximate:
            return expectation(derivative(self.fn), (), a, b, c, continuous=True)
        w = _whiten(1.0, a, b, c)
        cov, root = w.alpha * w.beta * c, jnp.sqrt(w.q)  # both over sqrt(P)
        rest = 1 / w.A**2 / w.B**2 / w.q + 1 / w.A**2 + 1 / w.B**2  # what the bracket is, without its cancellation
        return 0.25 + (arctan2(cov, root) + cov / root * rest) / (2 * pi)

    def r(self, std: Array, degree: int) -> Array:
        if self.approximate:
            return radial(self.fn, std, degree)
        x = std**2 / (1 + std**2)
        bell = std**2 / jnp.sqrt(2 * pi * (1 + std**2))

        def coefficient(l: int) -> Array:
            if l < 2:
                return std / 2 if l else bell
            if l % 2:
                return jnp.zeros_like(std)
            return bell * (-x) ** (l // 2 - 1) * (l - (l - 1) * x) * hermite_weight(l) / (l - 1)

        return jnp.stack([coefficient(l) for l in range(degree + 1)], axis=-1)


class Gaussian(Activation):
    """a exp(b t^2), b <= 0. With B = -b and D = 1 + 2 B (a^2 + b^2) + 4 B^2 det, all times the square of the
    amplitude a: k = D^(-1/2), slope 4 B^2 cov D^(-3/2).

    r_l(s), l even, times the amplitude: (1 + z)^(-1/2) (-x)^(l/2) w_l with z = 2 B s^2, x = z / (1 + z).
    """

    a: Parameter = parameter(default=1.0)
    b: Parameter = parameter(default=-1.0)

    def __check_init__(self) -> None:
        if isinstance(self.b, float) and not self.b <= 0:
            raise ValueError(
                f"Gaussian is a exp(b t^2) with b <= 0, not b = {self.b}: for b > 0 its kernel is infinite."
            )

    def fn(self, t: Array) -> Array:
        return self.a * jnp.exp(self.b * t**2)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        w = _whiten(-2 * self.b, a, b, c)
        return self.a**2 / w.A / w.B / jnp.sqrt(w.q)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        w = _whiten(-2 * self.b, a, b, c)
        root = jnp.sqrt(w.q)
        cov = a / w.A * (b / w.B) * c / root  # over sqrt(D)
        return 4 * (self.a * self.b) ** 2 * cov / w.A / w.B / root / w.A / w.B / root

    def r(self, std: Array, degree: int) -> Array:
        z = -2 * self.b * std**2
        head, x = self.a / jnp.sqrt(1 + z), z / (1 + z)
        r = [jnp.zeros_like(std) if l % 2 else head * (-x) ** (l // 2) * hermite_weight(l) for l in range(degree + 1)]
        return jnp.stack(r, axis=-1)


class Gabor(Activation):
    """exp(-t^2) sin(t). With S = a^2 + b^2, d = 4 det, D = 1 + 2 S + d:

    k = exp(-(S + d) / (2 D)) sinh(cov / D) / sqrt(D);
    slope exp(-(S + d) / (2 D)) ((1 + 2 S + 4 (cov^2 + a^2 b^2)) cosh(cov / D) + 4 cov (d + 3 S + 2) sinh(cov / D)) / D^(5/2).
    r_l(a), l odd: sqrt(v) exp(-a^2 v / 2) (1 - v)^(l/2) (-1)^((l-1)/2) g_l / sqrt(l!), v = 1 / (1 + 2 a^2), y = sqrt(v / 2),
    g_0 = 1, g_1 = y, g_{l+1} = y g_l + l g_{l-1}.
    """

    def fn(self, t: Array) -> Array:
        return jnp.exp(-(t**2)) * jnp.sin(t)

    def _parts(self, a: Array, b: Array, c: Array) -> tuple[_White, Array, Array, Array]:
        """The exponential over sqrt(D), cov / D, and (1 + S) / D."""
        w = _whiten(2.0, a, b, c)
        rest = (1 / w.A**2 + 1 / w.B**2) / w.q / 2
        bell = jnp.exp((rest - 1) / 2) / w.A / w.B / jnp.sqrt(w.q)  # S + d = D - 1 - S
        return w, bell, w.alpha * w.beta * c / w.q / w.A / w.B / 2, rest

    def k(self, a: Array, b: Array, c: Array) -> Array:
        _, bell, x, _ = self._parts(a, b, c)
        return bell * jnp.sinh(x)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        w, bell, x, rest = self._parts(a, b, c)
        even = (1 / w.A**2 + w.alpha**2 / w.B**2 + (w.alpha * w.beta) ** 2 * (1 + c**2)) / w.q
        even = even / w.A / w.B / w.q / w.A / w.B
        return bell * (even * jnp.cosh(x) + 4 * x * (1 + rest) * jnp.sinh(x))

    def r(self, std: Array, degree: int) -> Array:
        v = 1 / (1 + 2 * std**2)
        y, step = jnp.sqrt(v / 2), jnp.sqrt(2 * v) * std  # sqrt(1 - v)
        g = [jnp.ones_like(std), y]  # g_l / sqrt(l!)
        for l in range(1, degree):
            g.append((y * g[l] + sqrt(l) * g[l - 1]) / sqrt(l + 1))
        head = jnp.sqrt(v) * jnp.exp(-(std**2) * v / 2)
        r = [head * step**l * g[l] * ((-1) ** (l // 2)) if l % 2 else jnp.zeros_like(std) for l in range(degree + 1)]
        return jnp.stack(r, axis=-1)
