"""The fast Hadamard transform, as two or three small matrix products."""

import jax.numpy as jnp
from jaxtyping import Array
from scipy import linalg

_SIDE = 6  # a factor has at most 2^6 rows


def hadamard_plain(x: Array) -> Array:
    """The transform of the last axis, by its definition. The reference for `hadamard`."""
    return x @ jnp.asarray(linalg.hadamard(x.shape[-1]), x.dtype)


def hadamard(x: Array) -> Array:
    """The transform of the last axis: the matrix of order m1 m2 is the Kronecker product of those of m1 and m2.

    Each product works on the last axis, where it is one large matrix product, and puts the next axis there.
    """
    order = x.shape[-1].bit_length() - 1
    count = max(1, -(-order // _SIDE))
    sizes = [2 ** (order // count + (i < order % count)) for i in range(count)]
    y = x.reshape(-1, *sizes)
    sums = jnp.promote_types(x.dtype, jnp.float32)
    for _ in sizes:
        matrix = jnp.asarray(linalg.hadamard(y.shape[-1]), x.dtype)
        y = jnp.matmul(y, matrix, preferred_element_type=sums).astype(x.dtype)
        y = jnp.moveaxis(y, -1, 1)
    return y.reshape(x.shape)
