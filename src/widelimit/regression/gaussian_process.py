"""Gaussian processes given data: with a kernel matrix, or with features as the sums of a stream."""

import warnings
from math import log, pi
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float
from scipy import linalg

from ..numerics.precision import common_arrays, in_input_precision
from .arrays import AnyArray, ArrayLike, Scalar
from .checks import check_kernels, check_priors
from .sums import RidgeState


class Posterior(NamedTuple):
    """A Gaussian process given data; `covariance` is a matrix, a vector of variances, or None where it was not requested."""

    mean: Float[AnyArray, " m *outputs"]
    covariance: Float[AnyArray, " m *m"] | None
    jitter: Float[AnyArray, ""]


def posterior(
    K: ArrayLike, y: ArrayLike, K_cross: ArrayLike | None = None, K_test: ArrayLike | None = None, noise: Scalar = 0.0
) -> Posterior:
    """The Gaussian process with kernel matrix K on the training rows, given their targets y.

    `K_cross` is the kernel of the test rows with the training rows; without it the prediction is for the training rows
    themselves. `K_test`, the kernel of the test rows, gives their covariance; its diagonal alone gives variances.
    `noise` is the variance of the targets' noise.
    """
    arrays = check_kernels(noise, K, y, K_cross, K_test)
    result: Posterior = in_input_precision(_posterior, *arrays)
    warn_of_jitter(result.jitter, len(arrays[0]))
    return result


@jax.jit
def _posterior(
    K: Float[Array, "n n"],
    y: Float[Array, " n *outputs"],
    K_cross: Float[Array, "m n"] | None,
    K_test: Float[Array, " m *m"] | None,
    noise: Float[Array, ""],
) -> Posterior:
    factor, jitter = cholesky_with_jitter(K, noise)
    half = solve_triangular(factor, (K if K_cross is None else K_cross).T, lower=True)
    mean = half.T @ solve_triangular(factor, y, lower=True)
    prior = K if K_cross is None and K_test is None else K_test
    if prior is None:
        return Posterior(mean, None, jitter)
    if prior.ndim == 1:
        return Posterior(mean, jnp.maximum(prior - jnp.sum(half**2, axis=0), 0), jitter)
    return Posterior(mean, symmetric(prior - half.T @ half), jitter)


def symmetric(x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The symmetric part of a matrix."""
    return (x + x.T) / 2


def trained_posterior(
    K: ArrayLike,
    y: ArrayLike,
    K_cross: ArrayLike,
    prior: ArrayLike,
    prior_cross: ArrayLike,
    prior_test: ArrayLike,
    noise: Scalar = 0.0,
) -> Posterior:
    """Networks trained to the end by the kernel K, whose outputs start with the covariances `prior`, as in `GradientFlow`.

    The limit of gradient flow in infinite time, but with K + noise I factored as in `posterior`. `K_cross` is K of test with
    training rows; `prior`, `prior_cross` and `prior_test` are, as a rule, the NNGP's of training, both and test rows.
    """
    *arrays, variance = common_arrays(K, y, K_cross, prior, prior_cross, prior_test, noise)
    train, _, cross, _, _ = check_kernels(variance, arrays[0], arrays[1], arrays[2])
    check_priors(len(train), len(arrays[2] if cross is None else cross), *arrays[3:])
    result: Posterior = in_input_precision(_trained_posterior, *arrays, variance)
    warn_of_jitter(result.jitter, len(train))
    return result


@jax.jit
def _trained_posterior(
    K: Float[Array, "n n"],
    y: Float[Array, " n *outputs"],
    K_cross: Float[Array, "m n"],
    prior: Float[Array, "n n"],
    prior_cross: Float[Array, "m n"],
    prior_test: Float[Array, "m m"],
    noise: Float[Array, ""],
) -> Posterior:
    factor, jitter = cholesky_with_jitter(K, noise)
    weights = cho_solve((factor, True), K_cross.T).T
    return Posterior(weights @ y, trained_covariance(weights, prior, prior_cross, prior_test), jitter)


def trained_covariance(
    weights: Float[Array, "m n"],
    prior: Float[Array, "n n"],
    prior_cross: Float[Array, "m n"],
    prior_test: Float[Array, "m m"],
) -> Float[Array, "m m"]:
    """The covariance of f + weights (y - f_train), where f starts with the covariance `prior`."""
    mixed = weights @ prior_cross.T
    return symmetric(prior_test + weights @ prior @ weights.T - mixed - mixed.T)


def log_marginal_likelihood(K: ArrayLike, y: ArrayLike, noise: Scalar = 0.0) -> Float[AnyArray, ""]:
    """The logarithm of the density of the targets y under the Gaussian process with kernel matrix K, summed over outputs.

    `noise` is the variance of the targets' noise. Differentiable.
    """
    train, targets, _, _, variance = check_kernels(noise, K, y)
    value, jitter = in_input_precision(log_likelihood, train, targets, variance)
    warn_of_jitter(jitter, len(train))
    return value


@jax.jit
def log_likelihood(
    K: Float[Array, "n n"], y: Float[Array, " n *outputs"], noise: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The likelihood, and the jitter that it took."""
    factor, jitter = cholesky_with_jitter(K, noise)
    half = solve_triangular(factor, y, lower=True)
    outputs = 1 if y.ndim == 1 else y.shape[1]
    normalisation = outputs * (jnp.sum(jnp.log(jnp.diag(factor))) + len(K) * log(2 * pi) / 2)
    return -jnp.sum(half**2) / 2 - normalisation, jitter


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


class FeaturePosterior(NamedTuple):
    """A Gaussian process whose kernel is phi . phi', given the rows of a state; made by `feature_posterior`."""

    weights: Float[np.ndarray, "features outputs"]  # their mean
    root: Float[np.ndarray, "features features"]  # a matrix R with R^T R the covariance of the weights

    def mean(self, phi: ArrayLike) -> Float[np.ndarray, "n outputs"]:
        """(n, outputs)."""
        return self._rows(phi) @ self.weights

    def variance(self, phi: ArrayLike) -> Float[np.ndarray, " n"]:
        """(n,), of the function itself; add the noise for that of a target."""
        return np.sum((self._rows(phi) @ self.root.T) ** 2, 1)

    def covariance(self, phi: ArrayLike) -> Float[np.ndarray, "n n"]:
        """(n, n)."""
        half = self._rows(phi) @ self.root.T
        return half @ half.T

    def _rows(self, phi: ArrayLike) -> Float[np.ndarray, "n features"]:
        rows = np.asarray(phi, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.weights):
            raise ValueError(f"Features are (n, {len(self.weights)}), as those of the state, not {rows.shape}.")
        return rows


def feature_posterior(state: RidgeState, noise: Scalar) -> FeaturePosterior:
    """The Gaussian process with the kernel phi . phi' given the rows of the state and the variance of their noise.

    In weights: their prior is standard normal, their covariance noise (phi^T phi + noise)^-1.
    """
    if np.ndim(noise) or not 0 < float(noise) < float("inf"):
        raise ValueError(f"noise is the variance of the targets' noise, above 0, not {noise!r}.")
    noise = float(noise)
    try:
        factor = linalg.cholesky(state.gram + noise * np.eye(len(state.gram)), lower=True)
    except linalg.LinAlgError:
        raise ValueError(
            f"noise={noise} is lost in the rounding of the features' products. Give more, or features in float64."
        ) from None
    weights = linalg.cho_solve((factor, True), state.moment)
    root = linalg.solve_triangular(factor, np.sqrt(noise) * np.eye(len(factor)), lower=True)
    return FeaturePosterior(weights, root)
