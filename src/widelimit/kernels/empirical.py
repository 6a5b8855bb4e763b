"""The kernels of a finite network, which those of the exact reading are the limit of."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..layers import Layer
from .exact import Kernels


def empirical_kernel(
    net: Layer, params, x1: Array, x2: Array | None, *, ntk: bool, key: PRNGKeyArray | None = None
) -> Kernels:
    """NNGP and NTK of one draw of the weights, averaged over the output channels.

    The NTK is a contraction of Jacobians, one output channel at a time: in memory n times the number of parameters.
    """
    sides = [(x1, key)]
    if x2 is not None:  # different inputs meet different masks of Dropout
        sides = [(x1, None), (x2, None)] if key is None else list(zip((x1, x2), jax.random.split(key), strict=True))
    sides = [(jnp.asarray(x), k) for x, k in sides]
    outputs = [net.forward(params, x, k) for x, k in sides]
    y1, y2 = outputs[0], outputs[-1]
    if y1.ndim != 2:
        raise ValueError(
            f"The empirical kernel needs outputs without spatial axes, not {y1.shape[1:]}. End with Flatten or a pool."
        )
    nngp = y1 @ y2.T / y1.shape[-1]
    if not ntk:
        return Kernels(nngp, None)

    def one_channel(channel):
        jacobians = [jax.jacrev(lambda p, x=x, k=k: net.forward(p, x, k)[:, channel])(params) for x, k in sides]
        parts = jax.tree.map(
            lambda a, b: a.reshape(len(y1), -1) @ b.reshape(len(y2), -1).T, jacobians[0], jacobians[-1]
        )
        return sum(jax.tree.leaves(parts), jnp.zeros_like(nngp))

    channels = jax.lax.map(one_channel, jnp.arange(y1.shape[-1]))
    return Kernels(nngp, channels.mean(0))
