"""Your own: a known kernel without a function, and an activation inside an affine map."""

from collections.abc import Callable
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.optimize import nnls

from ..numerics import safe_sqrt
from ..storage.module import parameter
from .base import Activation, Evaluation, Parameter, magnitude


class FromDual(Activation):
    """No function, only a kernel `dual(cov, var1, var2)`.

    The slope is the derivative of the dual in cov. Within tau < h of c = +-1, tau = sqrt(1 -+ c), where the derivative of
    a formula with a root or an arccos is 0/0, the slope is the polynomial in tau through its values at h, 2h, 3h and 4h.
    """

    function: Callable[..., Any] = eqx.field(static=True)

    def __init__(self, dual: Callable[..., Any]):
        if not callable(dual):
            raise TypeError(f"FromDual takes a function dual(cov, var1, var2), not {dual!r}.")
        try:
            values = dual(jnp.asarray([0.2, -0.1, 0.0]), jnp.ones(3), jnp.ones(3))
        except Exception as error:
            raise TypeError(
                f"FromDual takes a function dual(cov, var1, var2) of arrays, written with jax.numpy; it failed: {error}"
            ) from error
        if jnp.shape(values) != (3,):
            raise TypeError(f"The dual of 3 pairs must be 3 numbers, not {values!r}.")
        self.function = dual

    def argument(self, name: str) -> Any:
        return self.function

    def fn(self, t: Array) -> Array:
        raise TypeError(
            "FromDual knows the kernel of an activation, not its function. Use Elementwise(fn) to apply it."
        )

    @property
    def evaluation(self) -> Evaluation:
        return "given"

    @property
    def has_function(self) -> bool:
        return False

    def _at(self, a: Array, b: Array, c: Array) -> Array:
        # A formula that divides by the standard deviations meets its limit at 0, not 0/0.
        tiny = jnp.finfo(c.dtype).tiny ** 0.25
        a, b = jnp.maximum(a, tiny), jnp.maximum(b, tiny)
        return self.function(a * b * c, a**2, b**2)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        return _formula(self, a, b, c)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        h = 1e-3 if c.dtype == jnp.float64 else 2e-2
        tiny = jnp.finfo(c.dtype).tiny ** 0.25
        a, b, c = jnp.broadcast_arrays(jnp.maximum(a, tiny), jnp.maximum(b, tiny), c)

        def slope(c: Array) -> Array:
            return jax.jvp(lambda cov: self.function(cov, a**2, b**2), (a * b * c,), (jnp.ones_like(c),))[1]

        side = jnp.where(c < 0, -1, 1).astype(c.dtype)
        tau = safe_sqrt(1 - abs(c)) / h
        near = sum(
            slope(side * (1 - (n * h) ** 2)) * prod((tau - m) / (n - m) for m in range(1, 5) if m != n)
            for n in range(1, 5)
        )
        return jnp.where(tau < 1, near, slope(jnp.where(tau < 1, 0, c)))

    def r(self, std: Array, degree: int) -> Array:
        """sqrt of the coefficients of a nonnegative fit of c -> k(std, std, c), each radius by itself.

        The fit needs concrete numbers; only r_0 = sqrt(k(std, std, 0)) is known without one. The signs are not: between
        different radii the series holds only for activations whose coefficients are all of one sign.
        """
        if degree == 0:
            return safe_sqrt(self.k(std, std, jnp.zeros_like(std)))[..., None]
        try:
            values, place = np.unique(np.asarray(std), return_inverse=True)
        except jax.errors.TracerArrayConversionError:
            raise TypeError(
                "FromDual.radial fits the dual outside of JAX, but was called on a traced value. Call it outside of jit."
            ) from None
        rows = np.stack([self._fit(value, degree, std.dtype) for value in values])
        return jnp.asarray(rows[place.reshape(np.shape(std))], std.dtype)

    def _fit(self, std: float, degree: int, dtype: Any) -> np.ndarray:
        c = np.cos(np.linspace(0, np.pi, 801))
        target = np.asarray(self.k(*(jnp.asarray(v, dtype) for v in (std, std, c))), np.float64)
        scale = np.max(np.abs(target))
        if scale == 0:
            return np.zeros(degree + 1)
        self._refuse_negative(c, target / scale)
        powers = c[:, None] ** np.arange(degree + 1)
        weight = np.where(np.abs(c) == 1, 30.0, 1.0)
        fitted, _ = nnls(powers * weight[:, None], target / scale * weight, maxiter=100 * (degree + 1))
        return np.sqrt(fitted * scale)

    def _refuse_negative(self, c: np.ndarray, target: np.ndarray) -> None:
        """Raise if no power series without negative coefficients comes near the dual, whatever its degree."""
        degree = 64
        fitted, miss = nnls(c[:, None] ** np.arange(degree + 1), target, maxiter=100 * degree)
        if miss > 1e-2 * np.sqrt(len(c)):
            worst = c[np.argmax(np.abs(c[:, None] ** np.arange(degree + 1) @ fitted - target))]
            raise ValueError(
                "The dual given to FromDual is no kernel of an activation: no power series in c without negative "
                f"coefficients comes nearer than {miss / np.sqrt(len(c)):.2g} of its size (worst at c = {worst:.2g}). "
                "Check the formula."
            )


@jax.custom_jvp
def _formula(activation: FromDual, a: Array, b: Array, c: Array) -> Array:
    return activation._at(a, b, c)


@_formula.defjvp
def _formula_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Derivatives in the radii, at a cosine clipped a few roundings inside of +-1, where arccos has a derivative."""
    activation, a, b, c = primals
    _, da, db, dc = tangents
    end = 1 - 64 * jnp.finfo(c.dtype).eps
    _, change = jax.jvp(lambda a, b: activation._at(a, b, jnp.clip(c, -end, end)), (a, b), (da, db))
    return activation._at(a, b, c), change + a * b * activation.k_slope(a, b, c) * dc


class Affine(Activation):
    """A f(B t) + C for an activation f.

    k = A^2 k_f(|B| a, |B| b, c) + C^2 + A C (m(|B| a) + m(|B| b)) with the mean m = r_0.
    """

    activation: Activation
    A: Parameter = parameter(default=1.0)
    B: Parameter = parameter(default=1.0)
    C: Parameter = parameter(default=0.0)

    def __check_init__(self) -> None:
        if not isinstance(self.activation, Activation):
            raise TypeError(f"Affine takes an activation, such as Relu() or Elementwise(fn), not {self.activation!r}.")
        if isinstance(self.activation, FromDual) and isinstance(self.C, float) and self.C != 0:
            raise ValueError(
                f"Affine(FromDual, C={self.C}) needs the sign of the mean, which a dual does not tell. Add the constant in "
                "the dual itself, or use Elementwise(fn)."
            )

    def fn(self, t: Array) -> Array:
        return self.A * self.activation.fn(self.B * t) + self.C

    def k(self, a: Array, b: Array, c: Array) -> Array:
        a, b = magnitude(self.B) * a, magnitude(self.B) * b
        means = sum(self.activation.r(std, 0)[..., 0] for std in (a, b))
        return self.A**2 * self.activation.k(a, b, c) + self.C**2 + self.A * self.C * means

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return (self.A * self.B) ** 2 * self.activation.k_slope(magnitude(self.B) * a, magnitude(self.B) * b, c)

    def k_derivative(self, a: Array, b: Array, c: Array) -> Array:
        return (self.A * self.B) ** 2 * self.activation.k_derivative(magnitude(self.B) * a, magnitude(self.B) * b, c)

    def r(self, std: Array, degree: int) -> Array:
        r = self.A * self._signs(degree) * self.activation.r(magnitude(self.B) * std, degree)
        return r.at[..., 0].add(self.C)

    def r_slope(self, std: Array, degree: int) -> Array:
        return self.A * self.B * self._signs(degree) * self.activation.r_slope(magnitude(self.B) * std, degree)

    @property
    def evaluation(self) -> Evaluation:
        return self.activation.evaluation

    def bends(self) -> tuple[float, ...]:
        return tuple(sorted(bend / float(self.B) for bend in self.activation.bends())) if self.B else ()

    @property
    def has_function(self) -> bool:
        return self.activation.has_function

    @property
    def continuous(self) -> bool:
        return self.activation.continuous

    @property
    def part_count(self) -> int:
        return self.activation.part_count

    def _signs(self, degree: int) -> Array:
        return jnp.where(jnp.asarray(self.B) < 0, -1, 1) ** jnp.arange(degree + 1)

    def _turn(self, std: Array, t: Array) -> tuple[Array, Array]:
        return magnitude(self.B) * std, jnp.where(jnp.asarray(self.B) < 0, -t, t)

    def parts(self, std: Array, t: Array) -> tuple[Array, ...]:
        first, *others = (self.A * part for part in self.activation.parts(*self._turn(std, t)))
        return first + self.C, *others

    def slope_parts(self, std: Array, t: Array) -> tuple[Array, ...]:
        return tuple(self.A * self.B * part for part in self.activation.slope_parts(*self._turn(std, t)))

    def part_r(self, std: Array, degree: int) -> tuple[Array, ...]:
        scale = self.A * self._signs(degree)
        first, *others = (scale * r for r in self.activation.part_r(magnitude(self.B) * std, degree))
        return first.at[..., 0].add(self.C), *others

    def slope_part_r(self, std: Array, degree: int) -> tuple[Array, ...]:
        scale = self.A * self.B * self._signs(degree)
        return tuple(scale * r for r in self.activation.slope_part_r(magnitude(self.B) * std, degree))
