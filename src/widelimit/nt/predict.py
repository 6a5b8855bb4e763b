"""neural-tangents' `predict`: predictions of infinitely wide networks. The computation is in `widelimit.linear`.

The loss is half the mean squared error over all targets and outputs, so that a learning rate and a time have the meaning
they have in neural-tangents.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import linear
from .choosing import asked, select


class Gaussian(NamedTuple):
    """A mean and a covariance."""

    mean: Any
    covariance: Any


class ODEState(NamedTuple):
    """Outputs, and with momentum their velocities, at a time."""

    fx_train: Any = None
    fx_test: Any = None
    qx_train: Any = None
    qx_test: Any = None


def _regularized(K: Any, diag_reg: float, absolute: bool) -> Any:
    """The shift of the diagonal: in units of the mean of the diagonal, unless `absolute`."""
    return diag_reg if absolute else diag_reg * K.diagonal().mean()


def _check_trace_axes(trace_axes: int | Sequence[int], y: Any) -> None:
    given = (trace_axes,) if isinstance(trace_axes, int) else tuple(trace_axes)
    if np.ndim(y) != 2 or given not in ((-1,), (1,)):
        raise ValueError(
            f"Predictions are offered for targets (n, outputs) and trace_axes=(-1,), and were given {np.shape(y)} and "
            f"{trace_axes!r}. A single output is y[:, None]."
        )


def _part(kernel: Any, name: str) -> Any:
    """The kernel named, of a kernel object or a named tuple; an array stands for any."""
    if hasattr(kernel, "nngp") or hasattr(kernel, "ntk"):
        found = getattr(kernel, name, None)
        if found is None:
            raise ValueError(f"{name!r} is needed, and the kernel given has none. Compute it with get=('nngp', 'ntk').")
        return found
    return kernel


def gp_inference(
    k_train_train: Any,
    y_train: Any,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable:
    """predict_fn(get, k_test_train, k_test_test): the posterior, of "nngp", "ntk" (trained networks) or "ntkgp"."""
    _check_trace_axes(trace_axes, y_train)

    def predict_fn(get=None, k_test_train=None, k_test_test=None):
        def one(name):
            kind = "nngp" if name == "nngp" else "ntk"
            K = _part(k_train_train, kind)
            if k_test_train is None:
                mean = jnp.asarray(y_train) if isinstance(K, jax.Array) else np.asarray(y_train, K.dtype)
                return mean if k_test_test is None else Gaussian(mean, 0 * K)
            noise = _regularized(K, diag_reg, diag_reg_absolute_scale)
            cross = _part(k_test_train, kind)
            if name != "ntk":
                prior = None if k_test_test is None else _part(k_test_test, kind)
                result = linear.posterior(K, y_train, cross, prior, noise)
                return result.mean if k_test_test is None else Gaussian(result.mean, result.covariance)
            if k_test_test is None:
                return linear.posterior(K, y_train, cross, None, noise).mean
            own, mixed, test = (_part(k, "nngp") for k in (k_train_train, k_test_train, k_test_test))
            return Gaussian(*linear.trained_posterior(K, y_train, cross, own, mixed, test, noise)[:2])

        return select(get, asked(get, ("nngp", "ntk", "ntkgp")), one, "Gaussians")

    return predict_fn


def gradient_descent_mse(
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable:
    """predict_fn(t, fx_train_0, fx_test_0, k_test_train): outputs after time t of gradient flow; t=None is infinity."""
    _check_trace_axes(trace_axes, y_train)
    k_train_train = _part(k_train_train, "ntk")
    noise = _regularized(k_train_train, diag_reg, diag_reg_absolute_scale)
    flow = linear.gradient_flow(k_train_train, y_train, noise)
    rate = learning_rate / np.size(y_train)

    def predict_fn(t=None, fx_train_0=0.0, fx_test_0=None, k_test_train=None):
        time = _time(t, rate)
        if fx_train_0 is None and fx_test_0 is None:
            raise ValueError(
                "Neither fx_train_0 nor fx_test_0 was given, so that there is nothing to predict. Give one."
            )
        if fx_test_0 is None:
            return flow.train(time, fx_train_0)
        if k_test_train is None:
            raise ValueError("fx_test_0 was given without k_test_train, which says how test outputs move. Give it too.")
        test = flow.test(time, _part(k_test_train, "ntk"), fx_test_0, 0.0 if fx_train_0 is None else fx_train_0)
        return test if fx_train_0 is None else (flow.train(time, fx_train_0), test)

    return predict_fn


def _time(t: Any, rate: float) -> Any:
    """The time of a flow, whose speed is 1, from that of training; None is infinity."""
    if t is None:
        return np.inf
    return rate * (np.asarray(t, np.float64) if isinstance(t, list | tuple) else t)


def gradient_descent_mse_ensemble(
    kernel_fn: Callable,
    x_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
    **kernel_fn_train_train_kwargs: Any,
) -> Callable:
    """predict_fn(t, x_test, get, compute_cov): the mean, and covariance, of infinitely many networks after time t."""
    _check_trace_axes(trace_axes, y_train)
    rate = learning_rate / np.size(y_train)
    train: dict[str, Any] = {}  # kernels of the training rows, and flows, as they are needed
    flows: dict[str, linear.GradientFlow] = {}

    def add(store, x1, x2, names, options):
        if missing := tuple(name for name in names if name not in store):
            store |= kernel_fn(x1, x2, missing, **options)._asdict()

    def shifted(name):
        reg = _regularized(train[name], diag_reg, diag_reg_absolute_scale)
        return train[name] + reg * np.eye(len(train[name]), dtype=train[name].dtype)

    def predict_fn(t=None, x_test=None, get=None, compute_cov=False, **kernel_fn_test_test_kwargs):
        time = _time(t, rate)
        names = asked(get, ("nngp", "ntk"))
        need = {*names, "nngp"} if compute_cov else {*names}
        add(train, x_train, None, need, kernel_fn_train_train_kwargs)
        options = kernel_fn_train_train_kwargs | kernel_fn_test_test_kwargs
        cross: dict[str, Any] = {}
        if x_test is not None:
            add(cross, x_test, x_train, need, options)
            test = kernel_fn(x_test, None, "nngp", **options) if compute_cov else None

        def one(name):
            if name not in flows:
                flows[name] = linear.gradient_flow(shifted(name), y_train)
            flow = flows[name]
            mean = flow.train(time) if x_test is None else flow.test(time, cross[name])
            if not compute_cov:
                return mean
            prior = shifted(name) if name == "nngp" else train["nngp"]  # a Gaussian process with noise starts with it
            if x_test is None:
                return Gaussian(mean, flow.covariance(time, shifted(name), prior, prior, prior))
            return Gaussian(mean, flow.covariance(time, cross[name], prior, cross["nngp"], test))

        return select(get, names, one, "Gaussians")

    return predict_fn


def gradient_descent(
    loss: Callable,
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    momentum: float | None = None,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable:
    """predict_fn(t, fx_train_or_state_0, fx_test_0, k_test_train): outputs after gradient flow on any loss(f, y)."""
    _check_trace_axes(trace_axes, y_train)

    def predict_fn(t=None, fx_train_or_state_0=0.0, fx_test_0=None, k_test_train=None):
        given = fx_train_or_state_0
        state = given if isinstance(given, ODEState) else ODEState(given, fx_test_0)
        if state.fx_train is None:
            raise ValueError(
                "The flow starts from outputs on the training rows, and fx_train is None. Give 0.0 or an array."
            )
        if state.fx_test is not None and k_test_train is None:
            raise ValueError("Test outputs were given without k_test_train, which says how they move. Give it too.")
        end = linear.loss_flow(
            loss, _part(k_train_train, "ntk"), y_train, t, state.fx_train, state.fx_test,
            None if k_test_train is None else _part(k_test_train, "ntk"), learning_rate, momentum, state.qx_train,
            state.qx_test,
        )  # fmt: skip
        if isinstance(given, ODEState) or momentum is not None:
            return ODEState(*end)
        return end[0] if fx_test_0 is None else end[:2]

    return predict_fn


def max_learning_rate(
    ntk_train_train: Any, y_train_size: int | None = None, momentum: float = 0.0, eps: float = 1e-12
) -> float:
    """The largest learning rate of gradient descent, with momentum, on half the mean squared error that converges."""
    K = np.asarray(_part(ntk_train_train, "ntk"), np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"ntk_train_train is a square matrix, (n, n), and has the shape {K.shape}.")
    size = len(K) if y_train_size is None else y_train_size
    return float(2 * (1 + momentum) * size / (np.linalg.eigvalsh(K)[-1] + eps))
