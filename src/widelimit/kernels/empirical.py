"""The kernels of a finite network, which those of the exact reading are the limit of."""

from collections.abc import Sequence
from typing import cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..layers import Layer
from ..layers.base import Parameters
from .exact import Inputs, Kernels


def empirical_kernel(
    net: Layer, params: Parameters, x1: Inputs, x2: Inputs | None, *, ntk: bool, key: PRNGKeyArray | None = None
) -> Kernels:
    """NNGP and NTK of one draw of the weights, averaged over the output channels.

    The NTK is a contraction of Jacobians, one output channel at a time: in memory n times the number of parameters.
    """
    inputs = [jnp.asarray(x) for x in (x1, x2) if x is not None]
    keys: Sequence[PRNGKeyArray | None] = [key] * len(inputs)
    if key is not None and x2 is not None:  # different inputs meet different masks of Dropout
        keys = list(jax.random.split(key))
    sides = list(zip(inputs, keys, strict=True))

    def outputs_of(params: Parameters, x: Array, key: PRNGKeyArray | None) -> Array:
        return cast(Array, net.forward(params, x, key))

    outputs = [outputs_of(params, *side) for side in sides]
    y1, y2 = outputs[0], outputs[-1]
    if y1.ndim != 2:
        raise ValueError(
            f"The empirical kernel needs outputs without spatial axes, not {y1.shape[1:]}. End with Flatten or a pool."
        )
    nngp = y1 @ y2.T / y1.shape[-1]
    if not ntk:
        return Kernels(nngp, None)

    def one_channel(channel: Array) -> Array:
        jacobians = [jax.jacrev(lambda p, side=side: outputs_of(p, *side)[:, channel])(params) for side in sides]
        parts = jax.tree.map(
            lambda a, b: a.reshape(len(y1), -1) @ b.reshape(len(y2), -1).T, jacobians[0], jacobians[-1]
        )
        return sum(jax.tree.leaves(parts), jnp.zeros_like(nngp))

    channels = jax.lax.map(one_channel, jnp.arange(y1.shape[-1]))
    return Kernels(nngp, channels.mean(0))
