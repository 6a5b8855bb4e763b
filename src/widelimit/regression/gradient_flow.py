"""Gradient flow on the squared error: training in time, from one eigendecomposition of the training kernel."""

import warnings
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics.precision import common_arrays, in_input_precision
from .arrays import AnyArray, ArrayLike, Scalar
from .checks import check_kernels, check_outputs, check_priors
from .gaussian_process import trained_covariance


class GradientFlow(eqx.Module):
    """Training by gradient flow on half the sum of squared errors, from one decomposition of the training kernel.

    df/dt = -K (f - y) on the training rows, so that f(t) = y + exp(-t K) (f(0) - y), and elsewhere f moves with K_cross.
    Made by `gradient_flow`. A time may be infinite; an array of times adds its axes in front.
    """

    values: Float[AnyArray, " n"]
    vectors: Float[AnyArray, "n n"]
    y: Float[AnyArray, " n *outputs"]

    def train(self, t: ArrayLike, start: ArrayLike = 0.0) -> Float[AnyArray, "..."]:
        """The outputs on the training rows at time t, having been `start` at time 0."""
        return self._at(_train, t, self._outputs("start", start, len(self.y)))

    def test(
        self, t: ArrayLike, K_cross: ArrayLike, start: ArrayLike = 0.0, start_train: ArrayLike = 0.0
    ) -> Float[AnyArray, "..."]:
        """The outputs on test rows at time t, having been `start` there and `start_train` on the training rows."""
        rows = self._test_rows(K_cross)
        starts = self._outputs("start", start, rows), self._outputs("start_train", start_train, len(self.y))
        return self._at(_test, t, K_cross, *starts)

    def covariance(
        self, t: ArrayLike, K_cross: ArrayLike, prior: ArrayLike, prior_cross: ArrayLike, prior_test: ArrayLike
    ) -> Float[AnyArray, "*times m m"]:
        """The covariance on test rows at time t of networks whose outputs start with the covariance `prior`.

        `prior` is that of the training rows, `prior_cross` of test with training rows, `prior_test` of the test rows.
        """
        check_priors(len(self.y), self._test_rows(K_cross), prior, prior_cross, prior_test)
        return self._at(_covariance, t, K_cross, prior, prior_cross, prior_test)

    def _test_rows(self, K_cross: ArrayLike) -> int:
        shape = np.shape(K_cross)
        if len(shape) != 2 or shape[1] != len(self.y):
            raise ValueError(
                f"K_cross is the kernel of test rows with the {len(self.y)} training rows, (m, {len(self.y)}), not {shape}."
            )
        return shape[0]

    def _outputs(self, name: str, value: ArrayLike, rows: int) -> ArrayLike:
        return check_outputs(name, value, (rows, *self.y.shape[1:]))

    def _at(self, fn: Callable[..., Array], t: ArrayLike, *args: ArrayLike) -> AnyArray:
        values, vectors, y, times, *arrays = common_arrays(self.values, self.vectors, self.y, t, *args)
        if isinstance(times, np.ndarray) and not np.all(times >= 0):
            raise ValueError(f"Times are 0 or more, and may be infinite, not {times}.")
        return in_input_precision(partial(_at_times, fn), values, vectors, y, times, *arrays)


@partial(jax.jit, static_argnums=0)
def _at_times(fn: Callable[..., Array], values: Array, vectors: Array, y: Array, t: Array, *arrays: Array) -> Array:
    flow = GradientFlow(values, vectors, y)
    flat = jax.vmap(lambda t: fn(flow, t, *arrays))(t.reshape(-1))
    return flat.reshape(*t.shape, *flat.shape[1:])


def gradient_flow(K: ArrayLike, y: ArrayLike, noise: Scalar = 0.0) -> GradientFlow:
    """Gradient flow with the training kernel K + noise I towards the targets y."""
    train, targets, _, _, variance = check_kernels(noise, K, y)
    flow, lowest = in_input_precision(_decompose, train, targets, variance)
    if isinstance(lowest, np.ndarray) and lowest < 0:
        warnings.warn(
            f"The kernel matrix of {len(train)} training rows has eigenvalues down to {lowest:.2g} of the largest. They are "
            "taken as 0. Is it a kernel matrix?",
            stacklevel=2,
        )
    return flow


@jax.jit
def _decompose(
    K: Float[Array, "n n"], y: Float[Array, " n *outputs"], noise: Float[Array, ""]
) -> tuple[GradientFlow, Float[Array, ""]]:
    """The flow, and the lowest eigenvalue over the largest size of one; 0 where rounding explains it."""
    values, vectors = jnp.linalg.eigh(K)
    lowest = jnp.min(values, initial=0) / jnp.maximum(jnp.max(abs(values), initial=0), jnp.finfo(K.dtype).tiny)
    rounding = 10 * len(K) * jnp.finfo(K.dtype).eps
    return GradientFlow(jnp.maximum(values, 0) + noise, vectors, y), jnp.where(lowest < -rounding, lowest, 0)


def _decay(flow: GradientFlow, t: Float[Array, ""]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """exp(-t K) and (1 - exp(-t K)) / K on the eigenvectors.

    Directions without a kernel, up to rounding, stay where they are: what is left of them in K_cross is noise.
    """
    values = jnp.asarray(flow.values)
    known = values > len(values) * jnp.finfo(values.dtype).eps * jnp.max(values, initial=0)
    forever = jnp.isinf(t)
    finite = jnp.where(forever, 0, t)
    gone = jnp.where(forever, 1, -jnp.expm1(-finite * values))
    return jnp.where(known, 1 - gone, 1), jnp.where(known, gone / jnp.where(known, values, 1), 0)


def _columns(x: Float[Array, " n *outputs"]) -> Float[Array, "n columns"]:
    return x[:, None] if x.ndim == 1 else x


def _train(flow: GradientFlow, t: Float[Array, ""], start: Float[Array, "..."]) -> Float[Array, " n *outputs"]:
    left, _ = _decay(flow, t)
    y, vectors = jnp.asarray(flow.y), jnp.asarray(flow.vectors)
    gap = _columns(start - y)
    return y + (vectors @ (left[:, None] * (vectors.T @ gap))).reshape(y.shape)


def _test(
    flow: GradientFlow,
    t: Float[Array, ""],
    K_cross: Float[Array, "m n"],
    start: Float[Array, "..."],
    start_train: Float[Array, "..."],
) -> Float[Array, " m *outputs"]:
    _, moved = _decay(flow, t)
    vectors = jnp.asarray(flow.vectors)
    gap = _columns(jnp.asarray(flow.y) - start_train)
    change = K_cross @ (vectors @ (moved[:, None] * (vectors.T @ gap)))
    return start + change.reshape(len(K_cross), *flow.y.shape[1:])


def _covariance(
    flow: GradientFlow,
    t: Float[Array, ""],
    K_cross: Float[Array, "m n"],
    prior: Float[Array, "n n"],
    prior_cross: Float[Array, "m n"],
    prior_test: Float[Array, "m m"],
) -> Float[Array, "m m"]:
    _, moved = _decay(flow, t)
    weights = (K_cross @ flow.vectors) * moved @ flow.vectors.T
    return trained_covariance(weights, prior, prior_cross, prior_test)
