"""Ridge regression on the device that holds the features or the kernel, in float64, as a tiled Cholesky factorisation.

The first rows are fitted and the following ones predicted, for many penalties.

Features and kernels are centred by the fitted rows, and so are the targets: the constant part of the kernel of a deep
network is nearly all of it, and the penalty is on the rest. Penalties are shares of the mean diagonal of the centred kernel.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num

from .arrays import ArrayLike, Penalties, Scores, Targets
from .objective import check_penalties
from .on_device import Rows, predict_rows, solve_features, solve_kernel
from .path import lowest

TILE = 4096  # its products run at full speed, and a slab of 50,000 x 4096 in float64 takes 1.6 GB

__all__ = ["HeldOut", "at_edge", "chosen_on_held_out", "feature_path", "kernel_path", "scored"]


class HeldOut(NamedTuple):
    """How every penalty does on rows that were not fitted: the mean squared error, and the share of rows put into their class.

    Where a penalty is too small for a factor, the error is inf and the share 0.
    """

    penalties: Penalties
    errors: Scores
    accuracies: Scores

    @property
    def chosen(self) -> float:
        """The penalty with the highest accuracy, and of several the one with the least error."""
        return float(self.penalties[lowest(-self.accuracies, self.errors)])


def feature_path(
    phi: Rows, y: ArrayLike, penalties: ArrayLike, stop: int | None = None, tile: int = TILE
) -> Float[np.ndarray, "penalties predicted outputs"]:
    """Fit the first len(y) rows of the features phi, (rows, m), and predict the rows from there to `stop`.

    y is (n, outputs). Gives (penalties, rows, outputs), NaN where a penalty is too small for a factor.
    """
    targets, shares, stop = _check(phi, y, penalties, stop, "features")
    with jax.enable_x64(True):
        phi = jnp.asarray(phi)  # once, for the fit and the predictions
    path, mean = solve_features(phi, targets, shares, centred="all", unit="share", tile=tile)
    return predict_rows(path, mean, phi, len(targets), stop, tile)


def kernel_path(
    K: Rows, y: ArrayLike, penalties: ArrayLike, stop: int | None = None, tile: int = TILE
) -> Float[np.ndarray, "penalties predicted outputs"]:
    """`feature_path` with kernels K, (rows, columns), of all rows with the first ones, of which the first len(y) are fitted."""
    targets, shares, stop = _check(K, y, penalties, stop, "kernels")
    if K.shape[1] < len(targets):
        raise ValueError(
            f"{len(targets)} rows are fitted, and the kernels are {K.shape}. Give their kernels with all these."
        )
    path, mean = solve_kernel(K, targets, shares, centred="all", unit="share", tile=tile)
    return predict_rows(path, mean, K, len(targets), stop, min(tile, len(targets)))


def chosen_on_held_out(
    path: Callable[..., np.ndarray], rows: Rows, y: ArrayLike, held_out: int, penalties: ArrayLike, tile: int = TILE
) -> HeldOut:
    """Fit all but the last `held_out` of the first len(y) rows, and score every penalty on these.

    `path` is `feature_path` or `kernel_path`, y (n, outputs) with the largest number where the class is.
    """
    y = np.asarray(y)
    if not 0 < held_out < len(y):
        raise ValueError(f"Of {len(y)} rows, 1 to {len(y) - 1} can be held out, not {held_out}.")
    first = len(y) - held_out
    return scored(path(rows, y[:first], penalties, len(y), tile), y[first:], penalties)


def scored(
    predictions: Float[np.ndarray, "penalties predicted outputs"],
    y: Num[np.ndarray, "predicted outputs"],
    penalties: ArrayLike,
) -> HeldOut:
    """The score of every penalty's predictions of y."""
    failed = ~np.isfinite(predictions).all((1, 2))
    right = np.mean(predictions.argmax(2) == y.argmax(1), axis=1)
    errors = np.mean((predictions - y) ** 2, axis=(1, 2))
    return HeldOut(check_penalties(penalties), np.where(failed, np.inf, errors), np.where(failed, 0.0, right))


def at_edge(penalty: float, penalties: Sequence[float]) -> bool:
    """Whether the least or the largest was chosen, so that others might do better."""
    return penalty in (min(penalties), max(penalties))


def _check(
    rows: Rows, y: ArrayLike, penalties: ArrayLike, stop: int | None, name: str
) -> tuple[Targets, Penalties, int]:
    targets, shares = np.asarray(y, np.float64), check_penalties(penalties)
    stop = len(rows) if stop is None else stop
    if rows.ndim != 2 or targets.ndim != 2 or not 1 < len(targets) < stop <= len(rows):
        raise ValueError(
            f"Targets are (n, outputs) with n >= 2, and {name} of more rows than n, up to stop, are needed, not "
            f"{targets.shape}, {rows.shape} and stop={stop}."
        )
    return targets, shares, stop
