"""Computed.

Only the functions of these activations are known. `quadrature` computes their duals.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..numerics import derivative, legendre
from ..numerics.checks import check_number
from .base import Activation, Evaluation
from .hermite import radial
from .quadrature import expectation


class Numerical(Activation):
    """An activation given by `fn` and by the points where it is not smooth."""

    @abstractmethod
    def bends(self) -> tuple[float, ...]:
        """The points where the function, or one of its first derivatives, jumps."""

    @property
    def evaluation(self) -> Evaluation:
        return "computed"

    def k(self, a: Array, b: Array, c: Array) -> Array:
        return expectation(self.fn, self.bends(), a, b, c, continuous=self._constant())

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        slope, jumps = derivative(self.fn), self.bends()
        return expectation(slope, jumps, a, b, c, continuous=not jumps and self._constant())

    def _constant(self) -> bool:
        """Whether there are no parameters, which would be differentiated too."""
        return not jax.tree.leaves(self)

    def r(self, std: Array, degree: int) -> Array:
        return radial(self.fn, std, degree, self.bends())

    def r_slope(self, std: Array, degree: int) -> Array:
        return radial(derivative(self.fn), std, degree, self.bends())


class _Smooth(Numerical):
    def bends(self) -> tuple[float, ...]:
        return ()


class Tanh(_Smooth):
    """tanh(t)."""

    def fn(self, t: Array) -> Array:
        return jnp.tanh(t)


class Sigmoid(_Smooth):
    """1 / (1 + exp(-t))."""

    def fn(self, t: Array) -> Array:
        return jax.nn.sigmoid(t)


class Softplus(_Smooth):
    """log(1 + exp(t))."""

    def fn(self, t: Array) -> Array:
        return jax.nn.softplus(t)


class Silu(_Smooth):
    """t / (1 + exp(-t)). Also called swish."""

    def fn(self, t: Array) -> Array:
        return jax.nn.silu(t)


class Mish(_Smooth):
    """t tanh(softplus(t))."""

    def fn(self, t: Array) -> Array:
        return jax.nn.mish(t)


class Softsign(Numerical):
    """t / (1 + |t|)."""

    def fn(self, t: Array) -> Array:
        return jax.nn.soft_sign(t)

    def bends(self) -> tuple[float, ...]:
        return (0.0,)


class HardTanh(Numerical):
    """t, cut off at -1 and 1."""

    def fn(self, t: Array) -> Array:
        return jnp.clip(t, -1, 1)

    def bends(self) -> tuple[float, ...]:
        return (-1.0, 1.0)


class Relu6(Numerical):
    """t, cut off at 0 and 6."""

    def fn(self, t: Array) -> Array:
        return jnp.clip(t, 0, 6)

    def bends(self) -> tuple[float, ...]:
        return (0.0, 6.0)


class Elementwise(Numerical):
    """Any function `fn` of one variable, written with `jax.numpy`.

    `kinks` are the points where it is not smooth; () promises that there are none. Between them it is taken to vary on a
    scale of order one: a warning says so where sums of two sizes disagree. The function must be continuous for the NTK,
    and for gradients of the kernel, to be those of a network: the slope across a jump is left out.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    kinks: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, fn: Callable[..., Any], kinks: tuple[float, ...] = (0.0,)):
        if not callable(fn):
            raise TypeError(f"Elementwise takes a function of one array, not {fn!r}.")
        self.function = fn
        try:
            self.kinks = tuple(sorted({float(check_number(kink)) for kink in kinks}))
        except TypeError:
            raise TypeError(
                f"kinks are the points where the function is not smooth, such as (0.0, 1.0), not {kinks!r}."
            ) from None

        _probe(fn, self.kinks)

    def argument(self, name: str) -> Any:
        return self.function if name == "fn" else self.kinks

    def fn(self, t: Array) -> Array:
        return self.function(t)

    def bends(self) -> tuple[float, ...]:
        return self.kinks

    @property
    def continuous(self) -> bool:
        return False  # nobody has said so


def _probe(fn: Callable[..., Any], kinks: tuple[float, ...]) -> None:
    """Refuse what is no function of each element by itself, and warn of one that quadrature cannot resolve."""
    with jax.enable_x64(True):
        t = jnp.asarray([-1.7, -0.6, 0.1, 0.8, 2.3])
        try:
            values = fn(t)
            alone = jnp.stack([fn(one) for one in t])
        except Exception as error:
            raise TypeError(
                f"Elementwise takes a function of one array, written with jax.numpy; {_name(fn)} of an array failed: {error}"
            ) from error
        if (
            not isinstance(values, jax.Array)
            or values.shape != t.shape
            or not jnp.issubdtype(values.dtype, jnp.floating)
        ):
            raise TypeError(
                f"{_name(fn)} of an array of 5 real numbers must be 5 real numbers of JAX, not {values!r}. Write it with "
                "jax.numpy."
            )
        try:
            alike = np.allclose(values, alone, rtol=1e-6, equal_nan=True)
        except jax.errors.TracerArrayConversionError:
            raise TypeError(
                f"{_name(fn)} uses a value that JAX is tracing, and a function is compiled as it is. To differentiate in a "
                "parameter, make it a field of a class of your own: see CONTRIBUTING."
            ) from None
        if not alike:
            raise TypeError(
                f"{_name(fn)} mixes the elements of its array. Elementwise takes a function of each by itself."
            )
        coarse, fine = (_energies(fn, kinks, nodes) for nodes in (40, 120))
    if not abs(coarse.sum() - fine.sum()) <= 1e-6 * fine.sum() or fine[[0, -1]].sum() > 1e-6 * fine.sum():
        warnings.warn(
            f"The kernel of {_name(fn)} will not be accurate: it has a kink outside of kinks={kinks}, varies on a scale much "
            "below 1, or grows too fast for a Gaussian.",
            stacklevel=4,
        )


def _energies(fn: Callable[..., Any], kinks: tuple[float, ...], nodes: int) -> np.ndarray:
    """E[f(t)^2] for t standard normal, in pieces between -9, -8, the kinks, 0, 8 and 9."""
    y, w = legendre(nodes)
    ends = np.unique(np.clip([-9.0, -8.0, *kinks, 0.0, 8.0, 9.0], -9, 9))
    t = ends[:-1, None] + np.diff(ends)[:, None] * y
    values = np.asarray(fn(jnp.asarray(t.ravel())), np.float64).reshape(t.shape)
    return np.sum(values**2 * np.exp(-t * t / 2) * w, axis=1) * np.diff(ends) / np.sqrt(2 * np.pi)


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", repr(fn))
