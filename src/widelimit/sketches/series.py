"""The coefficients of a truncated series, its missing part made up for."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..activations import Activation
from ..activations.hermite import derivative_coefficients
from ..numerics import safe_sqrt

_RADII = np.exp(np.linspace(np.log(1e-3), np.log(1e3), 97))


def tabulate(act: Activation, degree: int) -> Float[Array, "radii degrees"] | None:
    """For an activation known by its kernel alone: its coefficients, over sqrt(k(a, a, 1)), at many radii; else None.

    They are fitted, which takes concrete numbers; between the radii they are interpolated.
    """
    if act.has_function:
        return None
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        radii = jnp.asarray(_RADII)
        r = act.r(radii, degree + 1)
        length = safe_sqrt(act.k(radii, radii, jnp.ones_like(radii)))
        return jnp.asarray(np.asarray(r / jnp.maximum(length, 1e-300)[:, None], np.float32))


def _r(act: Activation, table: Array | None, std: Array, degree: int) -> Array:
    if table is None:
        return act.r(std, degree)
    place = jnp.log(jnp.clip(std, _RADII[0], _RADII[-1]))
    radii = jnp.asarray(np.log(_RADII), std.dtype)
    shares = [jnp.interp(place, radii, table[:, l].astype(std.dtype)) for l in range(degree + 1)]
    return safe_sqrt(act.k(std, std, jnp.ones_like(std)))[..., None] * jnp.stack(shares, -1)


def coefficients(
    act: Activation, table: Array | None, std: Float[Array, "*points"], degree: int
) -> Float[Array, "*points degrees"]:
    """r_0 .. r_degree, with what is missing in E[f(a t)^2] added to the last even and the last odd degree.

    The features then have the right length, and at c = -1 the right product: half the sum and half the difference of
    k(a, a, 1) and k(a, a, -1) are the even and the odd part.
    """
    return _compensate(_r(act, table, std, degree), act.k, std)


def slope_coefficients(act: Activation, table: Array | None, std: Array, degree: int) -> Array:
    """r'_0 .. r'_degree, with what is missing in E[f'(a t)^2] added likewise."""
    r = act.r_slope(std, degree) if table is None else derivative_coefficients(_r(act, table, std, degree + 1), std)
    return _compensate(r, act.k_slope, std)


def shares(act: Activation, table: Array | None, degree: int, slope: bool) -> np.ndarray:
    """How much of k(1, 1, 1), and with `slope` of k_slope too, each degree has."""
    with jax.ensure_compile_time_eval():
        one = jnp.ones(())
        kernels = [coefficients(act, table, one, degree)]
        if slope:
            kernels.append(slope_coefficients(act, table, one, degree))
        squares = [np.asarray(r, np.float64) ** 2 for r in kernels]
    return sum(square / max(square.sum(), 1e-30) for square in squares)


def _compensate(r: Array, k: Callable[[Array, Array, Array], Array], std: Array) -> Array:
    one = jnp.ones_like(std)
    same, opposite = k(std, std, one), k(std, std, -one)
    degree = r.shape[-1] - 1
    for last in range(max(degree - 1, 0), degree + 1):
        total = (same + opposite) / 2 if last % 2 == 0 else (same - opposite) / 2
        missing = jnp.maximum(total - jnp.sum(r[..., last % 2 :: 2] ** 2, -1), 0)
        sign = jnp.where(r[..., last] < 0, -1, 1)
        r = r.at[..., last].set(sign * safe_sqrt(r[..., last] ** 2 + missing))
    return r
