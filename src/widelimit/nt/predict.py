"""neural-tangents' `predict`: predictions of infinitely wide networks. The computation is in `widelimit.linear`.

The loss is half the mean squared error over all targets and outputs, so that a learning rate and a time have the meaning
they have in neural-tangents. In every function `diag_reg` is added to the diagonal of the training kernel, in units of its mean
or with `diag_reg_absolute_scale` as it is, and `trace_axes` are the axes of the targets that the kernel was averaged over.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import linear
from .choosing import names_of, select


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


def _regularisation(K: Any, diag_reg: float, absolute: bool) -> Any:
    """The shift of the diagonal: in units of the mean of the diagonal, unless `absolute`."""
    if isinstance(diag_reg, int | float) and not diag_reg >= 0:
        raise ValueError(f"diag_reg is 0 or more, not {diag_reg}.")
    return diag_reg if absolute else diag_reg * K.diagonal().mean()


class _Layout:
    """Targets (n, ...) as a matrix: the axes that a kernel is traced over as columns, the others beside the inputs.

    A kernel over axes a, b that are not traced has the shape (n, n', a, a', b, b') and becomes a matrix too.
    """

    def __init__(self, y: Any, trace_axes: int | Sequence[int]):
        rank = np.ndim(y)
        axes = (trace_axes,) if isinstance(trace_axes, int) else tuple(trace_axes)
        if rank < 2 or any(not -rank <= axis < rank or axis % rank == 0 for axis in axes):
            raise ValueError(
                f"Targets are (n, outputs), and trace_axes axes of theirs other than the first; they were {np.shape(y)} and "
                f"{trace_axes!r}. A single output is y[:, None]."
            )
        self.traced = sorted({axis % rank for axis in axes})
        self.beside = [axis for axis in range(1, rank) if axis not in self.traced]
        self.outputs = np.shape(y)[1:]

    def kernel(self, K: Any) -> Any:
        """A kernel as a matrix."""
        if K.ndim != 2 + 2 * len(self.beside):
            raise ValueError(
                f"The kernel has the shape {K.shape}, and that of targets {('n', *self.outputs)} traced over {self.traced} "
                f"has {2 + 2 * len(self.beside)} axes. Is trace_axes that of the kernel?"
            )
        order = [*range(0, K.ndim, 2), *range(1, K.ndim, 2)]
        half = K.ndim // 2
        K = K.transpose(order)
        rows, columns = K.shape[:half], K.shape[half:]
        return K.reshape(int(np.prod(rows)), int(np.prod(columns)))

    def flat(self, y: Any) -> Any:
        """Outputs as a matrix; a number stays one."""
        if y is None or np.ndim(y) == 0:
            return y
        y = y if isinstance(y, jax.Array) else np.asarray(y)
        if y.shape[1:] != self.outputs:
            raise ValueError(f"Outputs have the shape (n, *{self.outputs}), not {y.shape}.")
        y = y.transpose(0, *self.beside, *self.traced)
        return y.reshape(int(np.prod(y.shape[: 1 + len(self.beside)])), -1)

    def restore(self, f: Any) -> Any:
        """Outputs from a matrix, after any leading axes of time."""
        if f is None:
            return None
        beside, traced = ([self.outputs[axis - 1] for axis in axes] for axes in (self.beside, self.traced))
        lead = f.ndim - 2
        f = f.reshape(*f.shape[:lead], -1, *beside, *traced)
        order = np.argsort([0, *self.beside, *self.traced])
        return f.transpose(*range(lead), *(lead + order))

    def covariance(self, K: Any) -> Any:
        """A covariance from a matrix, after any leading axes of time."""
        lead, beside = K.ndim - 2, [self.outputs[axis - 1] for axis in self.beside]
        K = K.reshape(*K.shape[:lead], -1, *beside, K.shape[-1] // int(np.prod(beside)), *beside)
        half = 1 + len(beside)
        pairs = [lead + i + half * side for i in range(half) for side in (0, 1)]
        return K.transpose(*range(lead), *pairs)


def _part(kernel: Any, name: str) -> Any:
    """The kernel named, of a kernel object or a named tuple; an array stands for any."""
    if hasattr(kernel, "nngp") or hasattr(kernel, "ntk"):
        part = getattr(kernel, name, None)
        if part is None:
            raise ValueError(f"{name!r} is needed, and the kernel given has none. Compute it with get=('nngp', 'ntk').")
        return part
    return kernel


def gp_inference(
    k_train_train: Any,
    y_train: Any,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """predict_fn(get, k_test_train, k_test_test): the posterior, of "nngp", "ntk" (trained networks) or "ntkgp"."""
    layout = _Layout(y_train, trace_axes)
    y = layout.flat(y_train)

    def predict_fn(get: Any = None, k_test_train: Any = None, k_test_test: Any = None) -> Any:
        def matrix(kernel: Any, kind: Any) -> Any:
            return layout.kernel(_part(kernel, kind))

        def gaussian(mean: Any, covariance: Any) -> Any:
            return Gaussian(layout.restore(mean), layout.covariance(covariance))

        def one(name: Any) -> Any:
            kind = "nngp" if name == "nngp" else "ntk"
            K = matrix(k_train_train, kind)
            if k_test_train is None:
                mean = jnp.asarray(y_train) if isinstance(K, jax.Array) else np.asarray(y_train, K.dtype)
                return mean if k_test_test is None else Gaussian(mean, layout.covariance(0 * K))
            noise = _regularisation(K, diag_reg, diag_reg_absolute_scale)
            cross = matrix(k_test_train, kind)
            if k_test_test is None:
                return layout.restore(linear.posterior(K, y, cross, None, noise).mean)
            if name != "ntk":
                return gaussian(*linear.posterior(K, y, cross, matrix(k_test_test, kind), noise)[:2])
            own, mixed, test = (matrix(k, "nngp") for k in (k_train_train, k_test_train, k_test_test))
            return gaussian(*linear.trained_posterior(K, y, cross, own, mixed, test, noise)[:2])

        return select(get, names_of(get, ("nngp", "ntk", "ntkgp")), one, "Gaussians")

    return predict_fn


def gradient_descent_mse(
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """predict_fn(t, fx_train_0, fx_test_0, k_test_train): outputs after time t of gradient flow; t=None is infinity."""
    layout = _Layout(y_train, trace_axes)
    K = layout.kernel(_part(k_train_train, "ntk"))
    flow = linear.gradient_flow(K, layout.flat(y_train), _regularisation(K, diag_reg, diag_reg_absolute_scale))
    rate = learning_rate / np.size(y_train)

    def predict_fn(t: Any = None, fx_train_0: Any = 0.0, fx_test_0: Any = None, k_test_train: Any = None) -> Any:
        time = _time(t, rate)
        if fx_train_0 is None and fx_test_0 is None:
            raise ValueError(
                "Neither fx_train_0 nor fx_test_0 was given, so that there is nothing to predict. Give one."
            )
        start = layout.flat(fx_train_0)
        if fx_test_0 is None:
            return layout.restore(flow.train(time, start))
        if k_test_train is None:
            raise ValueError("fx_test_0 was given without k_test_train, which says how test outputs move. Give it too.")
        cross = layout.kernel(_part(k_test_train, "ntk"))
        test = layout.restore(flow.test(time, cross, layout.flat(fx_test_0), 0.0 if start is None else start))
        return test if start is None else (layout.restore(flow.train(time, start)), test)

    return predict_fn


def _time(t: Any, rate: float) -> Any:
    """The time of a flow, whose speed is 1, from that of training; None is infinity."""
    if t is None:
        return np.inf
    return rate * (np.asarray(t, np.float64) if isinstance(t, list | tuple) else t)


def gradient_descent_mse_ensemble(
    kernel_fn: Callable[..., Any],
    x_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
    **kernel_fn_train_train_kwargs: Any,
) -> Callable[..., Any]:
    """predict_fn(t, x_test, get, compute_cov): the mean, and covariance, of infinitely many networks after time t."""
    rate, layout = learning_rate / np.size(y_train), _Layout(y_train, trace_axes)
    y = layout.flat(y_train)
    train: dict[str, Any] = {}  # kernels of the training rows, and flows, as they are needed
    flows: dict[str, linear.GradientFlow] = {}

    def add(store: Any, x1: Any, x2: Any, names: Any, options: Any) -> Any:
        if missing := tuple(name for name in names if name not in store):
            kernels = kernel_fn(x1, x2, missing, **options)._asdict()
            store |= {name: layout.kernel(kernel) for name, kernel in kernels.items()}

    def noisy_kernel(name: Any) -> Any:
        reg = _regularisation(train[name], diag_reg, diag_reg_absolute_scale)
        return train[name] + reg * np.eye(len(train[name]), dtype=train[name].dtype)

    def predict_fn(
        t: Any = None, x_test: Any = None, get: Any = None, compute_cov: Any = False, **kernel_fn_test_test_kwargs: Any
    ) -> Any:
        time = _time(t, rate)
        names = names_of(get, ("nngp", "ntk"))
        need = {*names, "nngp"} if compute_cov else {*names}
        add(train, x_train, None, need, kernel_fn_train_train_kwargs)
        options = kernel_fn_train_train_kwargs | kernel_fn_test_test_kwargs
        cross: dict[str, Any] = {}
        test: Any = None
        if x_test is not None:
            add(cross, x_test, x_train, need, options)
            test = layout.kernel(kernel_fn(x_test, None, "nngp", **options)) if compute_cov else None

        def one(name: Any) -> Any:
            if name not in flows:
                flows[name] = linear.gradient_flow(noisy_kernel(name), y)
            flow = flows[name]
            mean = layout.restore(flow.train(time) if x_test is None else flow.test(time, cross[name]))
            if not compute_cov:
                return mean
            # A Gaussian process with noise starts with it.
            prior = noisy_kernel(name) if name == "nngp" else train["nngp"]
            own = noisy_kernel(name), prior, prior, prior
            kernels = own if x_test is None else (cross[name], prior, cross["nngp"], test)
            return Gaussian(mean, layout.covariance(flow.covariance(time, *kernels)))

        return select(get, names, one, "Gaussians")

    return predict_fn


def gradient_descent(
    loss: Callable[..., Any],
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    momentum: float | None = None,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """predict_fn(t, fx_train_or_state_0, fx_test_0, k_test_train): outputs after gradient flow on any loss(f, y)."""
    layout = _Layout(y_train, trace_axes)
    K, y = layout.kernel(_part(k_train_train, "ntk")), layout.flat(y_train)

    def flat_loss(f: Any, y: Any) -> Any:
        return loss(layout.restore(f), layout.restore(y))

    def predict_fn(
        t: Any = None, fx_train_or_state_0: Any = 0.0, fx_test_0: Any = None, k_test_train: Any = None
    ) -> Any:
        start = fx_train_or_state_0
        state = start if isinstance(start, ODEState) else ODEState(start, fx_test_0)
        if state.fx_train is None:
            raise ValueError(
                "The flow starts from outputs on the training rows, and fx_train is None. Give 0.0 or an array."
            )
        if state.fx_test is not None and k_test_train is None:
            raise ValueError("Test outputs were given without k_test_train, which says how they move. Give it too.")
        cross = None if k_test_train is None else layout.kernel(_part(k_test_train, "ntk"))
        fx_train, fx_test, qx_train, qx_test = (layout.flat(part) for part in state)
        end = linear.loss_flow(
            flat_loss, K, y, t, fx_train, fx_test, cross, learning_rate, momentum, qx_train, qx_test
        )  # fmt: skip
        end = tuple(layout.restore(part) for part in end)
        if isinstance(start, ODEState):
            return ODEState(*end)
        return end[0] if fx_test_0 is None else end[:2]

    return predict_fn


def max_learning_rate(
    ntk_train_train: Any, y_train_size: int | None = None, momentum: float = 0.0, eps: float = 1e-12
) -> float:
    """The largest learning rate of gradient descent, with momentum, on half the mean squared error that converges."""
    K = np.asarray(_part(ntk_train_train, "ntk"), np.float64)
    if K.ndim > 2 and K.ndim % 2 == 0:  # with output axes in pairs
        half = K.shape[::2]
        K = K.transpose(*range(0, K.ndim, 2), *range(1, K.ndim, 2)).reshape(int(np.prod(half)), -1)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"ntk_train_train is a square matrix, (n, n), and has the shape {K.shape}.")
    size = len(K) if y_train_size is None else y_train_size
    return float(2 * (1 + momentum) * size / (np.linalg.eigvalsh(K)[-1] + eps))
