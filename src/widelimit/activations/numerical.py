"""Activations of which only the function is known: their duals are computed (see `quadrature`)."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from ..described import number
from ..hermite import radial
from ..numerics import derivative
from ..quadrature import expectation
from .base import Activation


class Numerical(Activation):
    """An activation given by `fn` and by the points where it is not smooth."""

    @abstractmethod
    def bends(self) -> tuple[float, ...]:
        """Where the function or one of its first derivatives jumps."""

    def k(self, a, b, c):
        return expectation(self.fn, self.bends(), a, b, c, continuous=self._constant())

    def k_slope(self, a, b, c):
        slope, jumps = derivative(self.fn), self.bends()
        return expectation(slope, jumps, a, b, c, continuous=not jumps and self._constant())

    def _constant(self):
        """Whether there are no parameters, which would be differentiated too."""
        return not jax.tree.leaves(self)

    def r(self, std, degree):
        return radial(self.fn, std, degree, self.bends())


class _Smooth(Numerical):
    def bends(self):
        return ()


class Tanh(_Smooth):
    """tanh(t)."""

    def fn(self, t):
        return jnp.tanh(t)


class Sigmoid(_Smooth):
    """1 / (1 + exp(-t))."""

    def fn(self, t):
        return jax.nn.sigmoid(t)


class Softplus(_Smooth):
    """log(1 + exp(t))."""

    def fn(self, t):
        return jax.nn.softplus(t)


class Silu(_Smooth):
    """t / (1 + exp(-t)), also called swish."""

    def fn(self, t):
        return jax.nn.silu(t)


class Mish(_Smooth):
    """t tanh(softplus(t))."""

    def fn(self, t):
        return jax.nn.mish(t)


class Softsign(Numerical):
    """t / (1 + |t|)."""

    def fn(self, t):
        return jax.nn.soft_sign(t)

    def bends(self):
        return (0.0,)


class HardTanh(Numerical):
    """t, cut off at -1 and 1."""

    def fn(self, t):
        return jnp.clip(t, -1, 1)

    def bends(self):
        return (-1.0, 1.0)


class Relu6(Numerical):
    """t, cut off at 0 and 6."""

    def fn(self, t):
        return jnp.clip(t, 0, 6)

    def bends(self):
        return (0.0, 6.0)


class Elementwise(Numerical):
    """Any function of one variable, written with `jax.numpy`.

    `kinks` are the points where it is not smooth; () promises that there are none. The function must be continuous for
    the NTK, and for gradients of the kernel, to be those of a network: the slope across a jump is left out.
    """

    function: Callable = eqx.field(static=True)
    kinks: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, fn: Callable, kinks: tuple[float, ...] = (0.0,)):
        if not callable(fn):
            raise TypeError(f"Elementwise takes a function of one array, not {fn!r}.")
        self.function = fn
        try:
            self.kinks = tuple(sorted(float(number(kink)) for kink in kinks))
        except TypeError:
            raise TypeError(
                f"kinks are the points where the function is not smooth, such as (0.0, 1.0), not {kinks!r}."
            ) from None

    def argument(self, name):
        return self.function if name == "fn" else self.kinks

    def fn(self, t):
        return self.function(t)

    def bends(self):
        return self.kinks
