"""The Cholesky factor of a kernel matrix, with as little jitter as there must be."""

import warnings

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .arrays import AnyArray


def cholesky_with_jitter(
    K: Float[Array, "n n"], noise: Float[Array, ""]
) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The Cholesky factor of K + (noise + jitter) I, and the smallest jitter that has one: 0, or ten times more at each try.

    No gradient goes through the choice of the jitter.
    """
    identity = jnp.eye(len(K), dtype=K.dtype)
    fixed = jax.lax.stop_gradient(K + noise * identity)
    largest = jnp.max(abs(fixed), initial=0)
    scale = jnp.where(largest > 0, largest, 1)

    def fails(jitter: Array) -> Array:
        return jnp.any(jnp.isnan(jnp.linalg.cholesky(fixed + jitter * identity)))

    def larger(jitter: Array) -> Array:
        return jnp.maximum(10 * jitter, len(K) * jnp.finfo(K.dtype).eps * scale)

    # A matrix that is not finite never has a factor: give up, and let its NaN show.
    jitter = jax.lax.while_loop(lambda j: fails(j) & (j < 1e3 * scale), larger, jnp.zeros((), K.dtype))
    return jnp.linalg.cholesky(K + (noise + jitter) * identity), jitter


def warn_of_jitter(jitter: AnyArray | float, rows: int) -> None:
    """Warn the caller of a public function, two frames up, where a jitter was needed."""
    try:
        jitter = float(jitter)
    except jax.errors.ConcretizationTypeError:  # inside jit the number in the result has to do
        return
    if jitter > 0:
        warnings.warn(
            f"The kernel matrix of {rows} training rows is not positive definite, and {jitter:.2g} was added to its "
            "diagonal. Where rows are repeated, a noise above 0 says how far to trust each.",
            stacklevel=3,
        )
