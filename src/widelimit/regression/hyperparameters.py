"""The scales, slopes and noise that make the targets of a Gaussian process most likely."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.optimize import minimize

from ..kernels.exact import kernel
from ..network import Network
from ..numerics.precision import check_inputs
from .arrays import ArrayLike, Scalar
from .checks import check_kernels
from .gaussian_process import log_likelihood, warn_of_jitter

_WALL = 1e30  # the objective where it is not finite


class Fit(NamedTuple):
    """What `fit_hyperparameters` found: the network and the noise, their likelihood, and how the search ended."""

    net: Network
    noise: Scalar
    log_likelihood: float
    steps: int
    converged: bool
    message: str
    jitter: float


class _Parameters(NamedTuple):
    """The leaves of a network and the noise as one vector, of which some are free and some of these logarithmic."""

    structure: jax.tree_util.PyTreeDef
    start: Float[np.ndarray, " leaves"]
    free: Bool[np.ndarray, " leaves"]
    logarithmic: Bool[np.ndarray, " leaves"]

    @classmethod
    def of(cls, net: Network, noise: Scalar) -> "_Parameters":
        """Free are scales and the noise, unless they are 0, and all parameters of activations."""
        paths, structure = jax.tree_util.tree_flatten_with_path(net)
        start = np.array([float(leaf) for _, leaf in paths] + [noise])
        scale = np.array([getattr(path[-1], "name", "") in ("W_std", "b_std") for path, _ in paths] + [True])
        own = np.array([any(getattr(key, "name", "") == "activation" for key in path) for path, _ in paths] + [False])
        free = (scale & (start != 0)) | own
        return cls(structure, start, free, scale & free)

    def first(self) -> Float[np.ndarray, " free"]:
        """What the search starts from."""
        return np.where(self.logarithmic, np.log(np.where(self.logarithmic, self.start, 1)), self.start)[self.free]

    def leaves(self, theta: Float[Array, " free"]) -> Float[Array, " leaves"]:
        """All values, of the free ones."""
        full = jnp.asarray(self.start).at[np.flatnonzero(self.free)].set(theta)
        return jnp.where(self.logarithmic, jnp.exp(jnp.where(self.logarithmic, full, 0)), full)

    def network(self, leaves: "list[Array] | list[float]") -> Network:
        """The network of these leaves."""
        return jax.tree.unflatten(self.structure, leaves)


def fit_hyperparameters(
    net: Network, x: ArrayLike, y: ArrayLike, noise: Scalar = 0.1, get: str = "nngp", steps: int = 100
) -> Fit:
    """The scales, slopes and noise of the highest marginal likelihood near those given, by L-BFGS in float64.

    W_std, b_std and the noise stay positive, and where they are 0 they stay 0; the parameters of activations move freely.
    Everything else, such as what Dropout keeps, stays as it is. `x` and `y` are rows and targets, `noise` the variance to start
    from; `get` is "nngp" or "ntk", and `steps` the most that are taken.
    """
    rows, _ = check_inputs(np.asarray(x), None)
    unknown = np.broadcast_to(0.0, (len(rows), len(rows)))
    _, targets, _, _, variance = check_kernels(noise, unknown, np.asarray(y, np.float64))
    if get not in ("nngp", "ntk"):
        raise ValueError(f"get is 'nngp' or 'ntk', not {get!r}.")
    parameters = _Parameters.of(net, float(variance))

    def loss(theta: Array, x: Array, y: Array) -> tuple[Array, Array]:
        *leaves, noise = parameters.leaves(theta)
        K = getattr(kernel(parameters.network(leaves), x, ntk=get == "ntk"), get)
        value, jitter = log_likelihood(K, y, noise)
        return -value, jitter

    with jax.enable_x64(True):
        run = jax.jit(jax.value_and_grad(loss, has_aux=True))
        data = jnp.asarray(rows, jnp.float64), jnp.asarray(targets)
        value = _with_wall(lambda theta: run(jnp.asarray(theta), *data))
        first = parameters.first()
        if value(first)[0] == _WALL:
            raise ValueError(
                f"The likelihood at the start is not finite: the {get} of these inputs, or its slope, overflows. Start from "
                "smaller scales, or with standardised inputs."
            )
        result = minimize(value, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        *leaves, noise = (float(leaf) for leaf in parameters.leaves(jnp.asarray(result.x)))
        jitter = float(run(jnp.asarray(result.x), *data)[0][1])
    warn_of_jitter(jitter, len(rows))
    fitted = parameters.network(leaves)
    return Fit(fitted, noise, -float(result.fun), int(result.nit), bool(result.success), str(result.message), jitter)


def _with_wall(
    run: Callable[[np.ndarray], tuple[tuple[Array, Array], Array]],
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The value and its gradient; a wall for the line search after a step too far, where they are not finite."""

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        (loss, _), gradient = run(theta)
        if not (np.isfinite(loss) and np.all(np.isfinite(gradient))):
            return _WALL, np.zeros_like(theta)
        return float(loss), np.asarray(gradient)

    return value
