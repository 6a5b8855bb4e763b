"""The exact kernel of a network as a kernel object of scikit-learn."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from ..kernels.exact import kernel as pure_kernel
from ..network import Network
from ..numerics.padding import bucket, pad_rows
from ..numerics.precision import in_input_precision
from .inputs import KERNELS, fill_columns, network


class NeuralKernel(Kernel):
    """The NTK or NNGP of a fully connected network, for `GaussianProcessRegressor`, `SVC(kernel=...)` and `KernelRidge`.

    It has `depth` hidden layers. `W_std` and `b_std`, in every layer, are its hyperparameters, with bounds or "fixed"; on a
    homogeneous activation such as ReLU without biases, `W_std` is but a factor. With `net`, any network of rows, there are
    none. Rows go in as they are: standardise columns before.
    """

    def __init__(
        self, activation="gelu", depth=3, W_std=1.0, b_std=0.5, net=None, kernel="ntk", W_std_bounds=(1e-2, 1e2),
        b_std_bounds=(1e-3, 1e2),
    ):  # fmt: skip
        self.activation = activation
        self.depth = depth
        self.W_std = W_std
        self.b_std = b_std
        self.net = net
        self.kernel = kernel
        self.W_std_bounds = W_std_bounds
        self.b_std_bounds = b_std_bounds

    @property
    def hyperparameter_W_std(self) -> Hyperparameter:
        """The deviation of weights, unless a network is given."""
        return Hyperparameter("W_std", "numeric", "fixed" if self.net is not None else self.W_std_bounds)

    @property
    def hyperparameter_b_std(self) -> Hyperparameter:
        """The deviation of biases, unless a network is given, or there are none."""
        fixed = self.net is not None or not self.b_std
        return Hyperparameter("b_std", "numeric", "fixed" if fixed else self.b_std_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """K(X, Y), or K(X, X); with `eval_gradient` also its gradient in `theta`, (n, n, parameters)."""
        x, y = _rows(X), None if Y is None else _rows(Y)
        net = self._network()
        if not eval_gradient:
            return net.kernel(x, y, get=self.kernel)
        if Y is not None:
            raise ValueError("The gradient is for Y=None.")
        names = [hyperparameter.name for hyperparameter in self.hyperparameters if not hyperparameter.fixed]
        if not names:
            return net.kernel(x, get=self.kernel), np.empty((len(x), len(x), 0))
        parameters = [getattr(net.layers[0], name) for name in names]
        full = pad_rows(x, bucket(len(x)))
        value, slopes = in_input_precision(
            lambda x: _slopes(net, x, tuple(names), tuple(parameters), self.kernel), full
        )
        # copies: scikit-learn adds to the diagonal in place, and what JAX gives is read-only
        return value[: len(x), : len(x)].copy(), np.moveaxis(slopes[:, : len(x), : len(x)], 0, -1).copy()

    def diag(self, X: Any) -> np.ndarray:
        """K(x, x) of every row."""
        return self._network().kernel(_rows(X), get=self.kernel, diagonal=True)

    def is_stationary(self) -> bool:
        """No: it depends on lengths and directions."""
        return False

    def __repr__(self) -> str:
        if self.net is not None:
            return f"NeuralKernel(net={self.net!r}, kernel={self.kernel!r})"
        scales = f"W_std={self.W_std:.3g}, b_std={self.b_std or 0:.3g}"
        return f"NeuralKernel({self.activation!r}, depth={self.depth}, {scales}, kernel={self.kernel!r})"

    def _network(self) -> Network:
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel is 'ntk' or 'nngp', not {self.kernel!r}.")
        return network("fc", self.activation, self.depth, self.W_std, self.b_std, self.net)


def _rows(X: Any) -> np.ndarray:
    x = np.asarray(X)
    x = x if x.dtype == np.float32 else x.astype(np.float64)
    if x.ndim != 2:
        raise ValueError(f"NeuralKernel takes rows, (n, columns), not the shape {x.shape}.")
    return fill_columns(x)


def _with_scales(net: Network, names: tuple[str, ...], values: Any) -> Network:
    """The network with these scales in all of its Dense layers."""
    for name, value in zip(names, values, strict=True):
        net = eqx.tree_at(partial(_all_of, name), net, [value] * len(_all_of(name, net)))
    return net


def _all_of(name: str, net: Network) -> list[Any]:
    return [getattr(layer, name) for layer in net.layers if hasattr(layer, name)]


def _tangents(net: Any, x: Any, names: Any, values: Any, get: Any) -> Any:
    """The kernel, and its derivatives in the logarithms of the parameters, forward."""

    def of_logs(logs: Any) -> Any:
        return getattr(pure_kernel(_with_scales(net, names, [jnp.exp(log) for log in logs]), x, ntk=get == "ntk"), get)

    logs = tuple(jnp.log(value) for value in values)
    value, tangent = jax.linearize(of_logs, logs)
    basis = [tuple(1.0 * (i == j) for j in range(len(logs))) for i in range(len(logs))]
    return value, jnp.stack([tangent(tuple(jnp.asarray(b, x.dtype) for b in one)) for one in basis])


_slopes = jax.jit(_tangents, static_argnames=("names", "get"))
