"""What an activation is: a function of one variable and the expectations a kernel needs of it.

For (u, v) Gaussian with standard deviations a, b and cosine c, an activation f knows

    k(a, b, c) = E[f(u) f(v)]    and    k_slope(a, b, c) = E[f'(u) f'(v)],

and r_l(a) = E[f(a t) h_l(t)] (`radial`). Activations know nothing of layers. Their parameters are Python floats and
leaves of the pytree: they can be differentiated, and new values retrace nothing.

The kernel has a derivative rule of its own, because JAX's would meet 0/0 at c = +-1 and at zero rows. In cov the derivative
is k_slope (the paper's Theorem 3); in the radii and the parameters, at a fixed cosine, everything is smooth.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ..numerics import ULPS, cosine, derivative, safe_divide, safe_sqrt
from ..numerics.checks import check_int
from ..numerics.precision import common_arrays, in_input_precision
from ..storage.module import ReprAsCode
from .hermite import derivative_coefficients

# A parameter of an activation: a Python float, or the number that JAX makes of it while it traces.
Parameter = float | Float[Array, ""]
Evaluation = Literal["closed", "one integral", "computed", "given"]


def magnitude(x: Parameter) -> Parameter:
    """|x|."""
    return cast(Parameter, abs(x))


class Activation(ReprAsCode):
    """A function of one variable with its dual kernels. Subclasses give `fn`, `k`, `k_slope` and `r`."""

    @abstractmethod
    def fn(self, t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The function itself, element by element."""

    @abstractmethod
    def k(self, a: Array, b: Array, c: Array) -> Array:
        """E[f(u) f(v)] for standard deviations a, b and cosine c."""

    @abstractmethod
    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        """E[f'(u) f'(v)], the delta functions of a jump left out."""

    @abstractmethod
    def r(self, std: Array, degree: int) -> Array:
        """r_0(std) .. r_degree(std) in a new last axis; k = sum of r_l(a) r_l(b) c^l."""

    def r_slope(self, std: Array, degree: int) -> Array:
        """r'_0(std) .. r'_degree(std), the coefficients of f': k_slope = sum of r'_l(a) r'_l(b) c^l."""
        return derivative_coefficients(self.r(std, degree + 1), std)

    @property
    def evaluation(self) -> Evaluation:
        """How k is computed: in closed form, by one integral, by a series or two integrals, or as the user gave it."""
        return "closed"

    def bends(self) -> tuple[float, ...]:
        """The points where f, or one of its first derivatives, jumps."""
        return ()

    @property
    def continuous(self) -> bool:
        """Whether f is known to have no jumps, so that r_slope follows from r."""
        return True

    # Random features are f(std t) of a normal t. Most activations are one function. A kernel that belongs to no function
    # may still be the sum of the kernels of several: its parts.

    @property
    def part_count(self) -> int:
        """The number of functions that `parts` returns."""
        return 1

    @property
    def has_function(self) -> bool:
        """Whether `parts` are known, and not only the kernel."""
        return True

    def parts(self, std: Array, t: Array) -> tuple[Array, ...]:
        """Functions of a normal t. The sum of the products of each with itself, at u and at v, has the mean k."""
        return (self.fn(std * t),)

    def slope_parts(self, std: Array, t: Array) -> tuple[Array, ...]:
        """Functions of a normal t whose products have k_slope as the mean of their sum."""
        return (derivative(self.fn)(std * t),)

    def part_r(self, std: Array, degree: int) -> tuple[Array, ...]:
        """The Hermite coefficients of each part."""
        return (self.r(std, degree),)

    def slope_part_r(self, std: Array, degree: int) -> tuple[Array, ...]:
        """The Hermite coefficients of each slope part."""
        return (self.r_slope(std, degree),)

    def k_derivative(self, a: Array, b: Array, c: Array) -> Array:
        """dk/dcov at fixed a and b: `k_slope`, unless f jumps."""
        return self.k_slope(a, b, c)

    def dual(self, cov: ArrayLike, var1: ArrayLike, var2: ArrayLike) -> Any:
        """E[f(u) f(v)] from the covariance and the variances of u and v. NumPy gives NumPy, JAX gives JAX."""
        return _evaluate(_moment_dual, self, cov, var1, var2)

    def dual_slope(self, cov: ArrayLike, var1: ArrayLike, var2: ArrayLike) -> Any:
        """E[f'(u) f'(v)] from the covariance and the variances of u and v. NumPy gives NumPy, JAX gives JAX."""
        return _evaluate(_moment_slope, self, cov, var1, var2)

    def radial(self, std: ArrayLike, degree: int) -> Any:
        """r_0(std) .. r_degree(std) in a new last axis, with which k(a, b, c) is the sum of r_l(a) r_l(b) c^l."""
        degree = check_int("The degree of radial", degree)
        return _evaluate(lambda activation, std: activation.r(std, degree), self, std)


def dual(activation: Activation, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Any:
    """The paper's k(a, b, c) of an activation f: E[f(u) f(v)] for standard deviations a, b and cosine c, taken as given.

    NumPy arrays and numbers give NumPy, computed in their own precision; JAX arrays give JAX arrays.
    """
    return _evaluate(_k, activation, a, b, c)


def dual_slope(activation: Activation, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Any:
    """The paper's k'(a, b, c) of an activation f: E[f'(u) f'(v)], with arguments as for `dual`."""
    return _evaluate(_k_slope, activation, a, b, c)


_k = jax.jit(lambda activation, a, b, c: activation.k(a, b, jnp.clip(c, -1, 1)))
_k_slope = jax.jit(lambda activation, a, b, c: activation.k_slope(a, b, jnp.clip(c, -1, 1)))


def _evaluate(fn: Callable[..., Any], activation: Activation, *values: ArrayLike) -> Any:
    if not isinstance(activation, Activation):
        raise TypeError(f"{activation!r} is not an activation. Give one such as Relu() or Elementwise(fn).")
    try:
        np.broadcast_shapes(*map(np.shape, values))
    except ValueError:
        raise ValueError(
            f"The arguments have shapes that do not go together: {[np.shape(v) for v in values]}."
        ) from None
    return in_input_precision(lambda *arrays: fn(activation, *map(jnp.asarray, arrays)), *common_arrays(*values))


def _polar(ulps: float, cov: Array, var1: Array, var2: Array) -> tuple[Array, Array, Array]:
    a, b = safe_sqrt(var1), safe_sqrt(var2)
    return a, b, cosine(cov, a, b, ulps)


def _polar_tangents(
    a: Array, b: Array, c: Array, dcov: Array, dvar1: Array, dvar2: Array
) -> tuple[Array, Array, Array]:
    """Tangents of a and b, and of cov at fixed radii: a b dc, which has no singularity."""
    da, db = safe_divide(dvar1, 2 * a), safe_divide(dvar2, 2 * b)
    return da, db, dcov - c * (b * da + a * db)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def moment_dual(ulps: float, activation: Activation, cov: Array, var1: Array, var2: Array) -> Array:
    """E[f(u) f(v)] from moments whose cosine carries a rounding error of `ulps`."""
    return activation.k(*_polar(ulps, cov, var1, var2))


@moment_dual.defjvp
def _dual_jvp(ulps: float, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    activation, *moments = primals
    a, b, c = _polar(ulps, *moments)
    da, db, turn = _polar_tangents(a, b, c, *tangents[1:])
    value, change = jax.jvp(lambda f, a, b: f.k(a, b, c), (activation, a, b), (tangents[0], da, db))
    return value, change + activation.k_derivative(a, b, c) * turn


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def moment_slope(ulps: float, activation: Activation, cov: Array, var1: Array, var2: Array) -> Array:
    """E[f'(u) f'(v)] from moments whose cosine carries a rounding error of `ulps`."""
    return activation.k_slope(*_polar(ulps, cov, var1, var2))


@moment_slope.defjvp
def _dual_slope_jvp(ulps: float, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    activation, *moments = primals
    a, b, c = _polar(ulps, *moments)
    da, db, turn = _polar_tangents(a, b, c, *tangents[1:])
    # c = +-1 is an extreme of the cosine, so its first-order change is 0; only its derivative is infinite, at a kink.
    dc = jnp.where(abs(c) < 1, safe_divide(turn, a * b), 0)
    return jax.jvp(lambda f, a, b, c: f.k_slope(a, b, c), (activation, a, b, c), (tangents[0], da, db, dc))


_moment_dual = jax.jit(partial(moment_dual, ULPS))
_moment_slope = jax.jit(partial(moment_slope, ULPS))
