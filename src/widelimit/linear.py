"""Prediction: Gaussian processes, gradient flow and hyperparameters with kernel matrices, ridge regression on features.

NumPy in, NumPy out, in the precision of the input; JAX arrays may be traced and differentiated. Targets are (n,) or
(n, outputs). Where a matrix is factored, one that is not positive definite, as that of repeated rows, is shifted by the
smallest jitter that makes it so; the result, or a warning, says by how much. A flow needs no jitter: it leaves directions
without a kernel where they are.
"""

import warnings
from collections.abc import Callable
from functools import partial
from math import log, pi
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import odeint
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array
from scipy.optimize import minimize

from .kernels.exact import kernel
from .network import Network
from .numerics.precision import check_inputs, common_arrays, in_input_precision
from .regression.kernel import KernelPath, kernel_ridge
from .regression.sums import (
    FeaturePosterior,
    RidgePath,
    RidgeState,
    cross_validate,
    empty,
    feature_posterior,
    leave_one_out,
    merge,
    solve,
    update,
)

__all__ = [
    "FeaturePosterior", "Fit", "GradientFlow", "KernelPath", "Posterior", "RidgePath", "RidgeState", "cross_validate", "empty",
    "feature_posterior", "fit_hyperparameters", "gradient_flow", "kernel_ridge",
    "leave_one_out", "log_marginal_likelihood", "loss_flow",
    "merge", "posterior", "solve", "trained_posterior", "update",
]  # fmt: skip


class Posterior(NamedTuple):
    """A Gaussian process given data; `covariance` holds variances where those were asked for, and None where neither."""

    mean: Any
    covariance: Any
    jitter: Any


def posterior(K, y, K_cross=None, K_test=None, noise: float = 0.0) -> Posterior:
    """The Gaussian process with kernel matrix K on the training rows, given their targets y.

    `K_cross` is the kernel of the test rows with the training rows; without it the prediction is for the training rows
    themselves. `K_test`, the kernel of the test rows, gives their covariance; its diagonal alone gives variances.
    `noise` is the variance of the targets' noise.
    """
    arrays = _checked(noise, K=K, y=y, K_cross=K_cross, K_test=K_test)
    result = in_input_precision(_posterior, *arrays)
    _report(result.jitter, len(arrays[0]))
    return result


@jax.jit
def _posterior(K, y, K_cross, K_test, noise):
    factor, jitter = _factor(K, noise)
    alone = K_cross is None
    half = solve_triangular(factor, (K if alone else K_cross).T, lower=True)
    mean = half.T @ solve_triangular(factor, y, lower=True)
    prior = K if alone and K_test is None else K_test
    if prior is None:
        return Posterior(mean, None, jitter)
    if prior.ndim == 1:
        return Posterior(mean, jnp.maximum(prior - jnp.sum(half**2, axis=0), 0), jitter)
    return Posterior(mean, _symmetric(prior - half.T @ half), jitter)


def _symmetric(x: Array) -> Array:
    return (x + x.T) / 2


def _factor(K: Array, noise: Array) -> tuple[Array, Array]:
    """The Cholesky factor of K + (noise + jitter) I with the smallest jitter that has one, ten times more at each try."""
    identity = jnp.eye(len(K), dtype=K.dtype)
    fixed = jax.lax.stop_gradient(K + noise * identity)
    largest = jnp.max(abs(fixed), initial=0)
    scale = jnp.where(largest > 0, largest, 1)

    def failed(jitter):
        return jnp.any(jnp.isnan(jnp.linalg.cholesky(fixed + jitter * identity)))

    def larger(jitter):
        return jnp.maximum(10 * jitter, len(K) * jnp.finfo(K.dtype).eps * scale)

    # A matrix that is not finite never has a factor: give up, and let its NaN show.
    jitter = jax.lax.while_loop(lambda j: failed(j) & (j < 1e3 * scale), larger, jnp.zeros((), K.dtype))
    return jnp.linalg.cholesky(K + (noise + jitter) * identity), jitter


def _report(jitter: Any, rows: int) -> None:
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


def log_marginal_likelihood(K, y, noise: float = 0.0) -> Any:
    """The logarithm of the density of the targets y under the Gaussian process with kernel matrix K, summed over outputs.

    `noise` is the variance of the targets' noise. Differentiable.
    """
    K, y, _, _, noise = _checked(noise, K=K, y=y)
    value, jitter = in_input_precision(_log_likelihood, K, y, noise)
    _report(jitter, len(K))
    return value


@jax.jit
def _log_likelihood(K, y, noise):
    """The likelihood, and the jitter that it took."""
    factor, jitter = _factor(K, noise)
    half = solve_triangular(factor, y, lower=True)
    outputs = 1 if y.ndim == 1 else y.shape[1]
    normalisation = outputs * (jnp.sum(jnp.log(jnp.diag(factor))) + len(K) * log(2 * pi) / 2)
    return -jnp.sum(half**2) / 2 - normalisation, jitter


class GradientFlow(eqx.Module):
    """Training by gradient flow on half the sum of squared errors, from one decomposition of the training kernel.

    df/dt = -K (f - y) on the training rows, so that f(t) = y + exp(-t K) (f(0) - y), and elsewhere f moves with K_cross.
    Made by `gradient_flow`. A time may be infinite; an array of times adds its axes in front.
    """

    values: Any
    vectors: Any
    y: Any

    def train(self, t, start=0.0) -> Any:
        """The outputs on the training rows at time t, having been `start` at time 0."""
        return self._run(_train, t, self._outputs("start", start, len(self.y)))

    def test(self, t, K_cross, start=0.0, start_train=0.0) -> Any:
        """The outputs on test rows at time t, having been `start` there and `start_train` on the training rows."""
        rows = self._crossed(K_cross)
        starts = self._outputs("start", start, rows), self._outputs("start_train", start_train, len(self.y))
        return self._run(_test, t, K_cross, *starts)

    def covariance(self, t, K_cross, prior, prior_cross, prior_test) -> Any:
        """The covariance on test rows at time t of networks whose outputs start with the covariance `prior`.

        `prior` is that of the training rows, `prior_cross` of test with training rows, `prior_test` of the test rows.
        """
        _check_priors(len(self.y), self._crossed(K_cross), prior, prior_cross, prior_test)
        return self._run(_covariance, t, K_cross, prior, prior_cross, prior_test)

    def _crossed(self, K_cross) -> int:
        """The number of test rows."""
        shape = np.shape(K_cross)
        if len(shape) != 2 or shape[1] != len(self.y):
            raise ValueError(
                f"K_cross is the kernel of test rows with the {len(self.y)} training rows, (m, {len(self.y)}), not {shape}."
            )
        return shape[0]

    def _outputs(self, name: str, value, rows: int) -> Any:
        return _fits(name, value, (rows, *self.y.shape[1:]))

    def _run(self, fn: Callable, t, *given) -> Any:
        values, vectors, y, t, *arrays = common_arrays(self.values, self.vectors, self.y, t, *given)
        if isinstance(t, np.ndarray) and not np.all(t >= 0):
            raise ValueError(f"Times are 0 or more, and may be infinite, not {t}.")
        return in_input_precision(partial(_at_times, fn), values, vectors, y, t, *arrays)


def _fits(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """A number, or an array that broadcasts to `shape`; an error for any other."""
    try:
        fits = np.broadcast_shapes(np.shape(value), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} holds outputs of the shape {shape}, or one number for all, not {np.shape(value)}.")
    return value


def _check_priors(n: int, m: int, *priors: Any) -> None:
    shapes = [np.shape(array) for array in priors]
    if shapes != [(n, n), (m, n), (m, m)]:
        raise ValueError(
            f"The priors of {n} training and {m} test rows are {(n, n)}, {(m, n)} and {(m, m)}, not {shapes}."
        )


@partial(jax.jit, static_argnums=0)
def _at_times(fn: Callable, values, vectors, y, t, *arrays):
    flow = GradientFlow(values, vectors, y)
    flat = jax.vmap(lambda t: fn(flow, t, *arrays))(t.reshape(-1))
    return flat.reshape(*t.shape, *flat.shape[1:])


def gradient_flow(K, y, noise: float = 0.0) -> GradientFlow:
    """Gradient flow with the training kernel K + noise I towards the targets y."""
    K, y, _, _, noise = _checked(noise, K=K, y=y)
    flow, lowest = in_input_precision(_decompose, K, y, noise)
    if isinstance(lowest, np.ndarray) and lowest < 0:
        warnings.warn(
            f"The kernel matrix of {len(K)} training rows has eigenvalues down to {lowest:.2g} of the largest. They are taken "
            "as 0. Is it a kernel matrix?",
            stacklevel=2,
        )
    return flow


@jax.jit
def _decompose(K, y, noise):
    """The flow, and the lowest eigenvalue over the largest size of one; 0 where rounding explains it."""
    values, vectors = jnp.linalg.eigh(K)
    lowest = jnp.min(values, initial=0) / jnp.maximum(jnp.max(abs(values), initial=0), jnp.finfo(K.dtype).tiny)
    rounding = 10 * len(K) * jnp.finfo(K.dtype).eps
    return GradientFlow(jnp.maximum(values, 0) + noise, vectors, y), jnp.where(lowest < -rounding, lowest, 0)


def _decay(flow: GradientFlow, t: Array) -> tuple[Array, Array]:
    """exp(-t K) and (1 - exp(-t K)) / K on the eigenvectors, in a last axis of outputs.

    Directions without a kernel, up to rounding, stay where they are: what is left of them in K_cross is noise.
    """
    values = flow.values
    known = values > len(values) * jnp.finfo(values.dtype).eps * jnp.max(values, initial=0)
    ever = jnp.isinf(t)
    finite = jnp.where(ever, 0, t)
    gone = jnp.where(ever, 1, -jnp.expm1(-finite * values))
    return jnp.where(known, 1 - gone, 1), jnp.where(known, gone / jnp.where(known, values, 1), 0)


def _columns(x: Array) -> Array:
    return x[:, None] if x.ndim == 1 else x


def _train(flow: GradientFlow, t: Array, start: Array) -> Array:
    left, _ = _decay(flow, t)
    gap = _columns(start - flow.y)
    return flow.y + (flow.vectors @ (left[:, None] * (flow.vectors.T @ gap))).reshape(flow.y.shape)


def _test(flow: GradientFlow, t: Array, K_cross: Array, start: Array, start_train: Array) -> Array:
    _, moved = _decay(flow, t)
    gap = _columns(flow.y - start_train)
    change = K_cross @ (flow.vectors @ (moved[:, None] * (flow.vectors.T @ gap)))
    return start + change.reshape(len(K_cross), *flow.y.shape[1:])


def _covariance(flow, t, K_cross, prior, prior_cross, prior_test) -> Array:
    _, moved = _decay(flow, t)
    weights = (K_cross @ flow.vectors) * moved @ flow.vectors.T
    return _moved_covariance(weights, prior, prior_cross, prior_test)


def _moved_covariance(weights: Array, prior: Array, prior_cross: Array, prior_test: Array) -> Array:
    """The covariance of f(0) + weights (y - f_train(0))."""
    mixed = weights @ prior_cross.T
    return _symmetric(prior_test + weights @ prior @ weights.T - mixed - mixed.T)


def trained_posterior(K, y, K_cross, prior, prior_cross, prior_test, noise: float = 0.0) -> Posterior:
    """Networks trained to the end by the kernel K, whose outputs start with the covariances `prior`, as in `GradientFlow`.

    The limit of gradient flow in infinite time, but with K + noise I factored as in `posterior`. `K_cross` is K of test with
    training rows; `prior`, `prior_cross` and `prior_test` are, as a rule, the NNGP's of training, both and test rows.
    """
    *arrays, noise = common_arrays(K, y, K_cross, prior, prior_cross, prior_test, noise)
    K, y, K_cross, _, _ = _checked(noise, K=arrays[0], y=arrays[1], K_cross=arrays[2])
    _check_priors(len(K), len(K_cross), *arrays[3:])
    result = in_input_precision(_trained_posterior, *arrays, noise)
    _report(result.jitter, len(K))
    return result


@jax.jit
def _trained_posterior(K, y, K_cross, prior, prior_cross, prior_test, noise):
    factor, jitter = _factor(K, noise)
    weights = cho_solve((factor, True), K_cross.T).T
    return Posterior(weights @ y, _moved_covariance(weights, prior, prior_cross, prior_test), jitter)


def loss_flow(
    loss: Callable, K, y, t, train=0.0, test=None, K_cross=None, rate: float = 1.0, momentum: float | None = None,
    train_velocity=None, test_velocity=None,
) -> tuple:  # fmt: skip
    """Outputs after gradient flow on any loss(f, y), by a Runge-Kutta method: df/dt = -rate K grad loss(f).

    With `momentum` the flow is that of gradient descent with momentum: time runs with sqrt(rate), and velocities q obey
    dq/dt = -(1 - momentum) / sqrt(rate) q - K grad loss(f), df/dt = q. Gives train and test outputs and velocities.

    `t` is a time, or an array of them, finite; `train` and `test` are the outputs at time 0, `train_velocity` and
    `test_velocity` their velocities. Test outputs move with `K_cross`, the kernel of test with training rows.
    """
    try:
        moments = np.asarray(t, np.float64)
    except TypeError:
        moments = np.array(np.nan)
    if not (moments.size and np.all(np.isfinite(moments)) and np.all(moments >= 0)):
        raise ValueError(
            f"A flow on any loss needs finite times of 0 or more, not {t!r}. For squared error use gradient_flow."
        )
    K, y, K_cross, _, _ = _checked(0.0, K=K, y=y, K_cross=K_cross)
    if test is not None and K_cross is None:
        raise ValueError("Test outputs were given without K_cross, which says how they move. Give it too.")
    order = np.argsort(moments.reshape(-1))
    if train is None or not rate > 0:
        raise ValueError(
            f"A flow starts from outputs on the training rows, with a rate above 0, not {train!r} and {rate!r}."
        )
    rows, tested = len(K), 0 if K_cross is None else len(K_cross)
    starts = {"train": (train, rows), "test": (test, tested)}
    starts |= {"train_velocity": (train_velocity, rows), "test_velocity": (test_velocity, tested)}
    for name, (value, count) in starts.items():
        if value is not None:
            _fits(name, value, (count, *y.shape[1:]))

    def run(K, y, K_cross):
        speed = rate if momentum is None else rate**0.5
        times = speed * jnp.asarray(moments.reshape(-1)[order], K.dtype)
        slope = jax.grad(lambda f: loss(f, y))

        def full(value, rows):
            return None if value is None else jnp.broadcast_to(jnp.asarray(value, K.dtype), (rows, *y.shape[1:]))

        state: tuple = full(train, rows), full(test, tested)
        if momentum is not None:
            q_train = 0.0 if train_velocity is None else train_velocity
            q_test = (0.0 if test_velocity is None else test_velocity) if test is not None else None
            state = (*state, full(q_train, rows), full(q_test, tested))

        def change(state, _):
            push = slope(state[0])
            forces = -K @ push, None if test is None else -K_cross @ push
            if momentum is None:
                return forces
            friction = (momentum - 1) / speed
            pulled = jax.tree.map(lambda force, q: force + friction * q, forces, tuple(state[2:]))
            return (state[2], state[3], *pulled)

        # the first time is that of the start; equal times need a tiny step
        grid = jnp.concatenate([jnp.where(times[:1] == 0, -1e-24, 0).astype(K.dtype), times])
        end = odeint(change, state, grid)
        end = jax.tree.map(lambda x: x[1:][np.argsort(order)].reshape(*moments.shape, *x.shape[1:]), end)
        return (*end, None, None)[:4]

    return in_input_precision(run, K, y, K_cross)


class Fit(NamedTuple):
    """What `fit_hyperparameters` found: the network and the noise, their likelihood, and how the search ended."""

    net: Network
    noise: float
    log_likelihood: float
    steps: int
    converged: bool
    message: str
    jitter: float


def fit_hyperparameters(net: Network, x, y, noise: float = 0.1, get: str = "nngp", steps: int = 100) -> Fit:
    """The scales, slopes and noise of the highest marginal likelihood near those given, by L-BFGS in float64.

    W_std, b_std and the noise stay positive, and where they are 0 they stay 0; the parameters of activations move freely.
    Everything else, such as what Dropout keeps, stays as it is. `x` and `y` are rows and targets, `noise` the variance to start
    from; `get` is "nngp" or "ntk", and `steps` the most that are taken.
    """
    x, _ = check_inputs(np.asarray(x), None)
    _, y, _, _, noise = _checked(noise, K=np.broadcast_to(0.0, (len(x), len(x))), y=np.asarray(y, np.float64))
    if get not in ("nngp", "ntk"):
        raise ValueError(f"get is 'nngp' or 'ntk', not {get!r}.")
    paths, treedef = jax.tree_util.tree_flatten_with_path(net)
    start = np.array([float(leaf) for _, leaf in paths] + [float(noise)])
    scale = np.array([getattr(path[-1], "name", "") in ("W_std", "b_std") for path, _ in paths] + [True])
    own = np.array([any(getattr(key, "name", "") == "activation" for key in path) for path, _ in paths] + [False])
    free = (scale & (start != 0)) | own
    logarithmic = scale & free

    wall = 1e30

    def assemble(theta):
        full = jnp.asarray(start).at[np.flatnonzero(free)].set(theta)
        return jnp.where(logarithmic, jnp.exp(jnp.where(logarithmic, full, 0)), full)

    def loss(theta, x, y):
        *leaves, noise = assemble(theta)
        K = getattr(kernel(jax.tree.unflatten(treedef, leaves), x, ntk=get == "ntk"), get)
        value, jitter = _log_likelihood(K, y, noise)
        return -value, jitter

    with jax.enable_x64(True):
        run = jax.jit(jax.value_and_grad(loss, has_aux=True))
        data = jnp.asarray(x, jnp.float64), jnp.asarray(y)

        def value(theta):
            (found, _), gradient = run(jnp.asarray(theta), *data)
            if not (np.isfinite(found) and np.all(np.isfinite(gradient))):  # a step too far: a wall for the line search
                return wall, np.zeros_like(theta)
            return float(found), np.asarray(gradient)

        first = np.where(logarithmic, np.log(np.where(logarithmic, start, 1)), start)[free]
        if value(first)[0] == wall:
            raise ValueError(
                f"The likelihood at the start is not finite: the {get} of these inputs, or its slope, overflows. Start from "
                "smaller scales, or with standardised inputs."
            )
        result = minimize(value, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        *leaves, noise = (float(v) for v in assemble(jnp.asarray(result.x)))
        jitter = float(run(jnp.asarray(result.x), *data)[0][1])
    _report(jitter, len(x))
    fitted = jax.tree.unflatten(treedef, leaves)
    return Fit(fitted, noise, -float(result.fun), int(result.nit), bool(result.success), str(result.message), jitter)


def _checked(noise: Any, K, y, K_cross=None, K_test=None) -> tuple:
    """The arrays in one precision, and an error where their shapes do not go together."""
    given = {"K": K, "y": y, "K_cross": K_cross, "K_test": K_test}
    present = {name: value for name, value in given.items() if value is not None or name in ("K", "y")}
    if np.shape(noise) != ():
        raise ValueError(f"noise is one variance for all targets, not an array of the shape {np.shape(noise)}.")
    *arrays, noise = common_arrays(*present.values(), noise)
    found = dict(zip(present, arrays, strict=True))
    for name, array in [*found.items(), ("noise", noise)]:
        if isinstance(array, np.ndarray) and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} is not finite: it holds NaN or infinity. Look at the inputs that it comes from.")
    if isinstance(noise, np.ndarray) and noise < 0:
        raise ValueError(f"noise is a variance, 0 or more, not {noise}.")
    shapes = {name: array.shape for name, array in found.items()}
    n = shapes["K"][0] if shapes["K"] else 0
    if shapes["K"] != (n, n):
        raise ValueError(f"K is the kernel matrix of the training rows, (n, n), and has the shape {shapes['K']}.")
    if len(shapes["y"]) not in (1, 2) or shapes["y"][0] != n:
        raise ValueError(
            f"y holds a target for each of the {n} training rows, (n,) or (n, outputs), not {shapes['y']}."
        )
    m = n
    if "K_cross" in shapes:
        m = shapes["K_cross"][0] if shapes["K_cross"] else 0
        if shapes["K_cross"] != (m, n):
            raise ValueError(
                f"K_cross is the kernel of test rows with the {n} training rows, (m, {n}), not {shapes['K_cross']}."
            )
    if "K_test" in shapes and shapes["K_test"] not in ((m, m), (m,)):
        raise ValueError(
            f"K_test is the kernel of the {m} test rows, ({m}, {m}), or its diagonal, not {shapes['K_test']}."
        )
    return (*(found.get(name) for name in given), noise)
