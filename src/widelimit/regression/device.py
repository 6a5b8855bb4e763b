"""Ridge regression on the device that holds the features or the kernel, in float64, as a tiled Cholesky factorisation.

A is phi^T phi or, with no fewer features than rows, phi phi^T, or a kernel matrix. No float64 copy of all features is made.
Rows are centred before any product: the constant part of the kernel of a deep network is nearly all of it, and the difference
of large sums would leave nothing.

`feature_path` and `kernel_path` fit the first rows and predict the following ones, for many penalties. They centre features or
kernels and the targets by the fitted rows, and penalties are shares of the mean diagonal of the centred kernel.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, Shaped

from ..execution.grid import ranges
from .arrays import ArrayLike, Penalties, Scores, Targets, Weight
from .objective import Centred, Mean, Unit, absolute_penalties, check_penalties, effective_rows, target_mean
from .path import Path, lowest
from .tiles import Tiles, fill_up, multiply_slabs, solve_tiles, split_rows, trace

TILE = 4096  # its products run at full speed, and a slab of 50,000 x 4096 in float64 takes 1.6 GB

__all__ = ["HeldOut", "at_edge", "chosen_on_held_out", "feature_path", "kernel_path", "scored"]

Rows = Shaped[Array | np.ndarray, "rows columns"]

_weighted_sum = jax.jit(lambda part, weight: (part.astype(jnp.float64) * weight[:, None]).sum(0))
_weighted_row_sums = jax.jit(lambda block, weight: (block.astype(jnp.float64) * weight).sum(1))
_scale = jax.jit(lambda part, mean, root: (part.astype(jnp.float64) - mean) * root[:, None])
_centre_tile = jax.jit(lambda A, left, right, i, j: (A - left[:, None] - right) * i[:, None] * j, donate_argnums=0)
_predict = jax.jit(lambda part, mean, solutions: jnp.einsum("nm,pmo->pno", part.astype(jnp.float64) - mean, solutions))


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


def solve_features(
    phi: Rows,
    y: Targets,
    penalties: Penalties,
    weight: Weight | None = None,
    *,
    centred: Centred,
    unit: Unit,
    tile: int,
) -> tuple[Path, Mean]:
    """Fit the first len(y) rows of features: weights (penalties, features, outputs), not scored, and the means."""
    n, m = len(y), phi.shape[1]
    w = np.ones(n) if weight is None else weight
    with jax.enable_x64(True):
        phi, mean, root = jnp.asarray(phi), jnp.zeros(m), jnp.asarray(np.sqrt(w))
        if centred == "all":
            mean = sum((_weighted_sum(phi[rows], w[rows]) for rows in ranges(n, tile)), mean) / w.sum()
        centre = target_mean(y, w, centred)
        targets = root[:, None] * (y - centre)
        among_rows = m >= n
        parts = ranges(n if among_rows else m, min(tile, n, m))
        side = parts[0].stop

        def slab(i: int) -> Float[Array, "side columns"]:
            if among_rows:
                return fill_up(_scale(phi[parts[i]], mean, root[parts[i]]), side)
            return fill_up(_scale(phi[:n, parts[i]], mean[parts[i]], root).T, side)

        A = multiply_slabs(slab, len(parts))
        absolute = absolute_penalties(penalties, unit, trace(A) / effective_rows(w).sum())
        if among_rows:
            coefficients = solve_tiles(A, split_rows(targets, side), absolute)
            weights = jnp.zeros((len(absolute), m, y.shape[1]))
            for i, part in enumerate(jnp.split(coefficients, len(parts), axis=1)):
                weights = weights + jnp.einsum("nm,pno->pmo", slab(i), part)
        else:
            weights = solve_tiles(A, [slab(i) @ targets for i in range(len(parts))], absolute)[:, :m]
    return Path(absolute, weights, np.full(len(absolute), np.nan)), Mean(mean, centre)


def solve_kernel(
    K: Rows, y: Targets, penalties: Penalties, weight: Weight | None = None, *, centred: Centred, unit: Unit, tile: int
) -> tuple[Path, Mean]:
    """Fit the first len(y) rows and columns of a kernel: coefficients (penalties, n, outputs), not scored, and the means."""
    n = len(y)
    w = np.ones(n) if weight is None else weight
    with jax.enable_x64(True):
        A, mean = _kernel_tiles(K, w, centred, min(tile, n))
        absolute = absolute_penalties(penalties, unit, trace(A) / effective_rows(w).sum())
        root, centre = jnp.asarray(np.sqrt(w))[:, None], target_mean(y, w, centred)
        coefficients = root * solve_tiles(A, split_rows(root * (y - centre), min(tile, n)), absolute)[:, :n]
        if centred == "all":  # they add up to 0, but for rounding
            coefficients = coefficients - (w / w.sum())[:, None] * coefficients.sum(1, keepdims=True)
    return Path(absolute, coefficients, np.full(len(absolute), np.nan)), Mean(mean, centre)


def _kernel_tiles(K: Rows, weight: Weight, centred: Centred, side: int) -> tuple[Tiles, Float[Array, " n"]]:
    """The tiles of the centred S K S, S = W^(1/2), and the mean that was subtracted."""
    n, share = len(weight), jnp.asarray(weight / weight.sum())
    A: Tiles = {}
    means = []
    for i, rows in enumerate(ranges(n, side)):
        block = jnp.asarray(K[rows, :n])
        means.append(_weighted_row_sums(block, share))
        for j in range(i + 1):
            A[i, j] = fill_up(block[:, j * side : (j + 1) * side].astype(jnp.float64), side, side)
    mean = jnp.concatenate(means) if centred == "all" else jnp.zeros(n)
    half = split_rows(mean - mean @ share / 2, side)
    root = split_rows(jnp.asarray(np.sqrt(weight)), side)
    for i, j in list(A):
        A[i, j] = _centre_tile(A[i, j], half[i], half[j], root[i], root[j])
    return A, mean


def predict_rows(
    path: Path, mean: Mean, rows: Rows, start: int, stop: int, tile: int
) -> Float[np.ndarray, "penalties predicted outputs"]:
    """The targets of the rows from `start` to `stop`, features or kernels with the fitted rows, for every penalty."""
    columns = path.solutions.shape[1]
    with jax.enable_x64(True):
        blocks = (
            jnp.asarray(rows[start + part.start : start + part.stop, :columns]) for part in ranges(stop - start, tile)
        )
        parts = [np.asarray(_predict(block, mean.rows, path.solutions)) for block in blocks]
    return np.concatenate(parts, axis=1) + mean.targets
