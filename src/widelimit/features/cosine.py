"""Homogeneous networks on rows: their whole kernel is one polynomial of the input's cosine (the paper's Algorithm 1).

Without biases, and with activations whose kernel is (a b)^n kappa(c), a fully connected network of any depth has the NNGP
and the NTK (a b)^N f(c), with a and b the lengths of the inputs over sqrt(inputs) and c their cosine. f is a sum of powers
with coefficients of 0 or more, so its features are those of one layer.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from ..activations import Activation
from ..kernels.matrix import compiled_kernel
from ..layers import Layer
from ..numerics import polynomial

_POINTS = 8  # cosines for every degree
_SCALES = (1.0, 2.0)  # lengths at which homogeneity is looked at


class OfCosine(Activation):
    """The kernel (a b)^power times the sum of coefficients_l c^l; no function of its own."""

    power: float
    coefficients: tuple[float, ...]
    error: float  # the largest one, over the kernel at c = 1

    def fn(self, t):
        raise TypeError("A polynomial of the cosine has a kernel but no function.")

    def k(self, a, b, c):
        return (a * b) ** self.power * polynomial(self.coefficients, c)

    def k_slope(self, a, b, c):
        raise TypeError("A polynomial of the cosine stands for a whole network, and has no slope.")

    def r(self, std, degree):
        roots = [jnp.sqrt(jnp.asarray(coefficient, std.dtype)) for coefficient in self.coefficients[: degree + 1]]
        roots += [jnp.zeros((), std.dtype)] * (degree + 1 - len(roots))
        return std[..., None] ** self.power * jnp.stack(roots)


def of_cosine(net: Layer, inputs: int, get: str, degree: int) -> OfCosine | None:
    """The polynomial nearest to the kernel among those with coefficients of 0 or more; None if it is no such kernel."""
    if not _may_be(net):
        return None
    angles = np.linspace(0, np.pi, _POINTS * max(degree, 1) + 1) if inputs > 1 else np.array([0, np.pi])
    cosines = np.cos(angles)
    rows = np.zeros((len(angles), inputs))
    rows[:, 0] = cosines
    rows[:, 1:2] = np.sin(angles)[:, None]
    rows *= np.sqrt(inputs)
    with jax.enable_x64(True):
        firsts, others = np.concatenate([s * rows[:1] for s in _SCALES]), np.concatenate([s * rows for s in _SCALES])
        values = np.asarray(getattr(compiled_kernel(net, firsts, others, ntk=get == "ntk"), get))
    values = values.reshape(len(_SCALES), len(_SCALES), len(angles))
    f = values[0, 0]
    if not np.all(np.isfinite(values)) or f[0] <= 0 or values[1, 1, 0] <= 0:
        return None
    power = round(float(np.log2(values[1, 1, 0] / f[0]) / 2))
    scales = np.outer(_SCALES, _SCALES) ** power
    if not np.allclose(values, scales[..., None] * f, rtol=1e-6, atol=1e-6 * abs(values).max()):
        return None
    weight = np.where(np.arange(len(angles)) == 0, 2.0 * len(angles) ** 0.5, 1.0)  # lengths count
    powers = cosines[:, None] ** np.arange(degree + 1)
    coefficients, _ = nnls(powers * weight[:, None], f * weight)
    coefficients *= f[0] / coefficients.sum()
    return OfCosine(float(power), tuple(coefficients.tolist()), float(abs(powers @ coefficients - f).max() / f[0]))


def _may_be(net: Layer) -> bool:
    """Whether there is no bias and every activation is homogeneous, before anything is compiled."""
    nodes = jax.tree.leaves(net, is_leaf=lambda node: isinstance(node, Activation) or hasattr(node, "b_std"))
    if any(getattr(node, "b_std", None) for node in nodes):
        return False
    one = jnp.ones(3)
    c = jnp.asarray([-0.5, 0.3, 1.0])
    for act in nodes:
        if isinstance(act, Activation):
            here, there = act.k(one, one, c), act.k(2 * one, 2 * one, c)
            if not jnp.allclose(there * here[-1], here * there[-1], rtol=1e-4):
                return False
    return True
