"""The kernels of a finite network, which those of the exact reading are the limit of."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from .exact import Kernels
from .layers import Layer


def empirical_kernel(
    net: Layer, params, x1: Array, x2: Array, *, ntk: bool, key: PRNGKeyArray | None = None
) -> Kernels:
    """NNGP and NTK of one draw of the weights, averaged over the output channels.

    The NTK is a contraction of Jacobians, one output channel at a time: in memory n times the number of parameters.
    """
    x1, x2 = jnp.asarray(x1), jnp.asarray(x2)
    y1, y2 = net.forward(params, x1, key), net.forward(params, x2, key)
    if y1.ndim != 2:
        raise ValueError(
            f"The empirical kernel needs outputs without spatial axes, not {y1.shape[1:]}. End with Flatten or a pool."
        )
    nngp = y1 @ y2.T / y1.shape[-1]
    if not ntk:
        return Kernels(nngp, None)

    def one_channel(channel):
        first, second = (jax.jacrev(lambda p, x=x: net.forward(p, x, key)[:, channel])(params) for x in (x1, x2))
        parts = jax.tree.map(lambda a, b: a.reshape(len(x1), -1) @ b.reshape(len(x2), -1).T, first, second)
        return sum(jax.tree.leaves(parts), jnp.zeros_like(nngp))

    channels = jax.lax.map(one_channel, jnp.arange(y1.shape[-1]))
    return Kernels(nngp, channels.mean(0))
