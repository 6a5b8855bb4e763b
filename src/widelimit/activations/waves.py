"""Waves and exponentials.

Their duals are exponentials of |u - v|^2 and |u + v|^2.

The exponents are combined before anything is exponentiated: exp(-(a^2 + b^2) / 2) sinh(a b c) overflows in float32 from
a = 9.5 on. And a^2 + b^2 - 2 a b c is written (a - b)^2 + 2 a b (1 - c), which keeps the digits of near-duplicates.
"""

from abc import abstractmethod
from math import sqrt

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array

from ..numerics import cos_and_sin, safe_log, spread
from ..storage.module import parameter
from .base import Activation, Parameter, magnitude


def _square_distance(a: Array, b: Array, c: Array) -> Array:
    return (a - b) ** 2 + 2 * a * b * (1 - c)


def _refuse_negative_gamma(activation: "Rbf | ExpNormalized") -> None:
    gamma = activation.gamma
    if isinstance(gamma, float) and not gamma >= 0:
        raise ValueError(f"{type(activation).__name__} is a kernel for gamma of 0 or more, not {gamma!r}.")


def _powers(x: Array, degree: int) -> Array:
    """x^l / sqrt(l!) as logarithms, x >= 0, in a new last axis."""
    l = jnp.arange(degree + 1, dtype=x.dtype)
    # 0^0 = 1, and the logarithm of 0 is finite here
    return jnp.where(l == 0, 0, l * jnp.maximum(safe_log(x)[..., None], -1e3)) - gammaln(l + 1) / 2


class _Sine(Activation):
    """A sin(B t + C). With E+- = exp(-B^2 |u +- v|^2 / 2): k = A^2 (sin(C)^2 E- + cos(2C) (E- - E+) / 2) and the slope
    A^2 B^2 (cos(C)^2 E- - cos(2C) (E- - E+) / 2), the difference by expm1 so that small inputs keep their digits.

    r_l(a) = A (B a)^l exp(-B^2 a^2 / 2) sin(C + l pi / 2) / sqrt(l!).
    """

    @abstractmethod
    def wave(self) -> tuple[Parameter, Parameter, Parameter, Parameter]:
        """The amplitude A, the frequency B, and the sine and cosine of the phase C."""

    def fn(self, t: Array) -> Array:
        amplitude, frequency, sin, cos = self.wave()
        cos_t, sin_t = cos_and_sin(frequency * t)
        return amplitude * (sin_t * cos + cos_t * sin)

    def _parts(self, a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        """E- and cos(2C) (E- - E+) / 2."""
        _, frequency, sin, cos = self.wave()
        square = frequency**2
        larger = jnp.exp(-square * _square_distance(a, b, abs(c)) / 2)
        difference = -jnp.sign(c) * larger * jnp.expm1(-2 * square * a * b * abs(c))
        minus = jnp.exp(-square * _square_distance(a, b, c) / 2)
        return minus, (cos - sin) * (cos + sin) * difference / 2

    def k(self, a: Array, b: Array, c: Array) -> Array:
        amplitude, _, sin, _ = self.wave()
        minus, half = self._parts(a, b, c)
        return amplitude**2 * (sin**2 * minus + half)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        amplitude, frequency, _, cos = self.wave()
        minus, half = self._parts(a, b, c)
        return (amplitude * frequency) ** 2 * (cos**2 * minus - half)

    def r(self, std: Array, degree: int) -> Array:
        amplitude, frequency, sin, cos = self.wave()
        x = magnitude(frequency) * std
        turns = jnp.stack([jnp.asarray(v, std.dtype) for v in (sin, cos, -sin, -cos)])[jnp.arange(degree + 1) % 4]
        signs = jnp.sign(jnp.asarray(frequency, std.dtype)) ** jnp.arange(degree + 1)
        return amplitude * turns * signs * jnp.exp(_powers(x, degree) - x[..., None] ** 2 / 2)


class Sin(_Sine):
    """a sin(b t + c)."""

    a: Parameter = parameter(default=1.0)
    b: Parameter = parameter(default=1.0)
    c: Parameter = parameter(default=0.0)

    def wave(self) -> tuple[Parameter, Parameter, Parameter, Parameter]:
        return self.a, self.b, jnp.sin(self.c), jnp.cos(self.c)


class Cos(_Sine):
    """a cos(b t + c)."""

    a: Parameter = parameter(default=1.0)
    b: Parameter = parameter(default=1.0)
    c: Parameter = parameter(default=0.0)

    def wave(self) -> tuple[Parameter, Parameter, Parameter, Parameter]:
        return self.a, self.b, jnp.cos(self.c), -jnp.sin(self.c)


class Rbf(_Sine):
    """sqrt(2) sin(sqrt(2 gamma) t + pi / 4). Its dual is the Gaussian kernel exp(-gamma |u - v|^2)."""

    gamma: Parameter = parameter(default=1.0)

    def __check_init__(self) -> None:
        _refuse_negative_gamma(self)

    def wave(self) -> tuple[Parameter, Parameter, Parameter, Parameter]:
        return sqrt(2), jnp.sqrt(2 * self.gamma), sqrt(0.5), sqrt(0.5)


class Exp(Activation):
    """a exp(b t). k = a^2 exp(b^2 |u + v|^2 / 2), r_l(s) = a exp(b^2 s^2 / 2) (b s)^l / sqrt(l!)."""

    a: Parameter = parameter(default=1.0)
    b: Parameter = parameter(default=1.0)

    def fn(self, t: Array) -> Array:
        return self.a * jnp.exp(self.b * t)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        return self.a**2 * jnp.exp(self.b**2 * _square_distance(a, b, -c) / 2)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return self.b**2 * self.k(a, b, c)

    def r(self, std: Array, degree: int) -> Array:
        x = magnitude(self.b) * std
        signs = jnp.sign(jnp.asarray(self.b, std.dtype)) ** jnp.arange(degree + 1)
        return self.a * signs * jnp.exp(_powers(x, degree) + x[..., None] ** 2 / 2)


class ExpNormalized(Activation):
    """No function; the kernel is the paper's normalised Gaussian, a b exp(gamma (c + shift)).

    (A function with this kernel would be positively homogeneous, by equal inputs of norms a and b, hence an ABRelu, and
    those have another kernel.) r_l(a)^2 = a^2 exp(gamma shift) gamma^l / l!.
    """

    gamma: Parameter = parameter(default=1.0)
    shift: Parameter = parameter(default=-1.0)

    def __check_init__(self) -> None:
        _refuse_negative_gamma(self)

    def fn(self, t: Array) -> Array:
        raise TypeError(
            "ExpNormalized has a kernel but no function: no activation has the dual a b exp(gamma (c - 1)). Use "
            "net.kernel, or ABRelu(-0.0959, 1.411), the activation whose dual comes nearest."
        )

    def k(self, a: Array, b: Array, c: Array) -> Array:
        return a * b * jnp.exp(self.gamma * (c + self.shift))

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return spread(self.gamma * jnp.exp(self.gamma * (c + self.shift)), a, b)

    def r(self, std: Array, degree: int) -> Array:
        root = jnp.sqrt(jnp.asarray(self.gamma, std.dtype))
        return std[..., None] * jnp.exp(_powers(root, degree) + self.gamma * self.shift / 2)

    def r_slope(self, std: Array, degree: int) -> Array:
        root = jnp.sqrt(jnp.asarray(self.gamma, std.dtype))
        return root * self.r(jnp.ones_like(std), degree)

    # On unit vectors exp(gamma (c - 1)) is the Gaussian kernel, the mean of cos z cos z' + sin z sin z', z = sqrt(gamma) t.

    @property
    def part_count(self) -> int:
        return 2

    def _waves(self, t: Array) -> tuple[Array, ...]:
        z, height = jnp.sqrt(jnp.asarray(self.gamma, t.dtype)) * t, jnp.exp(self.gamma * (1 + self.shift) / 2)
        return tuple(height * wave for wave in cos_and_sin(z))

    def parts(self, std: Array, t: Array) -> tuple[Array, ...]:
        return tuple(std * wave for wave in self._waves(t))

    def slope_parts(self, std: Array, t: Array) -> tuple[Array, ...]:
        root = jnp.sqrt(jnp.asarray(self.gamma, t.dtype))
        return tuple(jnp.sign(std) * root * wave for wave in self._waves(t))

    def part_r(self, std: Array, degree: int) -> tuple[Array, ...]:
        return _alternating(self.r(std, degree))

    def slope_part_r(self, std: Array, degree: int) -> tuple[Array, ...]:
        return _alternating(self.r_slope(std, degree))


def _alternating(r: Array) -> tuple[Array, Array]:
    """The coefficients of a cosine and a sine from their sizes: even ones here, odd ones there, with signs in pairs."""
    l = np.arange(r.shape[-1])
    signs = np.where(l // 2 % 2, -1.0, 1.0)
    even, odd = (jnp.asarray(np.where(l % 2 == parity, signs, 0.0), r.dtype) for parity in (0, 1))
    return r * even, r * odd
