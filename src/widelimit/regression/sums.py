"""Ridge regression on features as a stream: blocks of rows go in, a path of solutions comes out.

A `RidgeState` holds the products of the features and targets seen so far, in float64; the rows themselves are not kept.
States of different blocks, workers or folds are added by `merge`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg


class RidgeState(NamedTuple):
    """What is known of the rows so far: phi^T phi, phi^T y, the squares of the targets, and how many rows there were.

    A row of weight w counts as `effective_rows(w)`.
    """

    gram: np.ndarray
    moment: np.ndarray
    squares: np.ndarray
    rows: float


class RidgePath(NamedTuple):
    """Solutions for several penalties: weights (penalties, features, outputs), and a score of each, lower is better."""

    penalties: np.ndarray
    weights: np.ndarray
    scores: np.ndarray

    @property
    def best(self) -> np.ndarray:
        """The weights of the lowest score."""
        return self.weights[int(np.argmin(self.scores))]


def empty(features: int, outputs: int) -> RidgeState:
    """A state of no rows, of so many features and outputs."""
    return RidgeState(np.zeros((features, features)), np.zeros((features, outputs)), np.zeros(outputs), 0.0)


def update(state: RidgeState | None, phi: Any, y: Any, weight: Any = None) -> RidgeState:
    """The state with a block of rows more; None starts one.

    `phi` is (rows, features), `y` (rows,) or (rows, outputs); `weight` counts rows more or less than once.
    """
    phi, y = _block(phi, y)
    state = empty(phi.shape[1], y.shape[1]) if state is None else state
    _fits(state, phi, y)
    w = np.broadcast_to(np.asarray(1.0 if weight is None else weight, np.float64), np.shape(weight) or len(phi))
    if w.shape != (len(phi),) or not np.all(w >= 0):
        raise ValueError(f"weight is a number of 0 or more, or one for each of {len(phi)} rows, not {weight!r}.")
    root = np.sqrt(w)[:, None]
    scaled = phi if weight is None else phi * root.astype(phi.dtype)
    # the product of a block in its own precision, and by symmetry at half its cost; the sum over blocks in float64
    return RidgeState(
        state.gram + (scaled.T @ scaled).astype(np.float64, copy=False),
        state.moment + scaled.T.astype(np.float64) @ (root * y.astype(np.float64)),
        state.squares + w @ y.astype(np.float64) ** 2,
        state.rows + float(effective_rows(w).sum()),
    )


def effective_rows(weight: np.ndarray) -> np.ndarray:
    """How many rows each stands for: one of weight w >= 1 for w of them, one of less for one that is trusted less."""
    return np.where(weight > 0, np.maximum(weight, 1.0), 0.0)


def _block(phi: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """A block of rows, checked, its targets in columns."""
    if isinstance(phi, tuple):
        raise TypeError("A block has the features of one kernel. Of a map of several, give phi(x).ntk or phi(x).nngp.")
    phi, y = np.asarray(phi), np.asarray(y)
    if not (_is_number(phi) and _is_number(y)):
        raise TypeError(f"Features and targets are numbers, not of the types {phi.dtype} and {y.dtype}.")
    y = y[:, None] if y.ndim == 1 else y
    if phi.ndim != 2 or y.ndim != 2 or len(phi) != len(y):
        raise ValueError(
            f"A block has features (n, m) and targets (n,) or (n, outputs), not {phi.shape} and {y.shape}."
        )
    for name, part in (("features", phi), ("targets", y)):
        if not np.all(np.isfinite(part)):
            row = int(np.argwhere(~np.isfinite(part))[0][0])
            raise ValueError(f"The {name} of row {row} of a block are NaN or infinite. Look at where they come from.")
    return phi, y


def _is_number(x: np.ndarray) -> bool:
    return np.issubdtype(x.dtype, np.number) or x.dtype == bool or str(x.dtype) == "bfloat16"


def _fits(state: RidgeState, phi: np.ndarray, y: np.ndarray) -> None:
    if state.gram.shape[0] != phi.shape[1] or state.moment.shape[1] != y.shape[1]:
        raise ValueError(
            f"The state is of {state.gram.shape[0]} features and {state.moment.shape[1]} outputs, and the block has "
            f"{phi.shape[1]} and {y.shape[1]}."
        )


def merge(*states: RidgeState) -> RidgeState:
    """The state of all rows."""
    if not states or not all(isinstance(state, RidgeState) for state in states):
        raise TypeError(f"merge takes states, one after the other, not {[type(state).__name__ for state in states]}.")
    if len({state.moment.shape for state in states}) > 1:
        shapes = [state.moment.shape for state in states]
        raise ValueError(f"States to merge have equal numbers of features and outputs, not {shapes}.")
    return RidgeState(*(sum(parts[1:], parts[0]) for parts in zip(*states, strict=True)))


def _without(whole: RidgeState, part: RidgeState) -> RidgeState:
    return RidgeState(
        whole.gram - part.gram, whole.moment - part.moment, whole.squares - part.squares, whole.rows - part.rows
    )


def solve(state: RidgeState, penalties: Any) -> RidgePath:
    """The weights that minimise the squared error plus penalty |w|^2, with generalised cross-validation as their score.

    One eigendecomposition serves many penalties; for one or two, Cholesky factors are faster.
    """
    chosen = penalties_of(penalties)
    if len(chosen) <= 2 and np.all(chosen > 0):
        with suppress(linalg.LinAlgError):  # a penalty too small for a factor
            return _by_cholesky(state, chosen)
    values, vectors = _decomposed(state)
    turned = vectors.T @ state.moment
    weights, scores = [], []
    for inverse in inverses(values, chosen):
        w = inverse[:, None] * turned
        residual = np.sum(state.squares) - 2 * np.sum(w * turned) + np.sum(values[:, None] * w**2)
        scores.append(gcv(state.rows, residual, np.sum(values * inverse)))
        weights.append(vectors @ w)
    return RidgePath(chosen, np.stack(weights), np.array(scores))


def _decomposed(state: RidgeState) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = linalg.eigh(state.gram, driver="evd", check_finite=False)
    return np.maximum(values, 0), vectors


def inverses(values: np.ndarray, penalties: np.ndarray) -> list[np.ndarray]:
    """1 / (value + penalty) for every penalty, and 0 where both are."""
    floor = len(values) * np.finfo(np.float64).eps * max(values.max(initial=0), 1e-300)
    shifted = [values + penalty for penalty in penalties]
    return [np.where(s > floor, 1 / np.where(s > floor, s, 1), 0) for s in shifted]


def leave_one_out(state: RidgeState, penalties: Any, blocks: Iterable[tuple[Any, ...]]) -> RidgePath:
    """As `solve`, scored by the mean squared error of every row under the solution without it, exactly.

    `blocks` gives the rows of the state once more, as (phi, y) or (phi, y, weight). The error without a row is its error
    with it over 1 - h, where h = phi (phi^T phi + penalty)^-1 phi is what the row says about itself; of a weight above 1,
    only 1 is left out.
    """
    chosen = penalties_of(penalties)
    values, vectors = _decomposed(state)
    turned = vectors.T @ state.moment
    shrinkage = inverses(values, chosen)
    errors, rows, squares = np.zeros(len(chosen)), 0.0, np.zeros_like(state.squares)
    for given_phi, given_y, *weight in blocks:
        phi, y = _block(given_phi, given_y)
        _fits(state, phi, y)
        w = np.asarray(weight[0], np.float64) if weight and weight[0] is not None else np.ones(len(phi))
        z = phi.astype(np.float64) @ vectors
        least = np.sqrt(np.finfo(phi.dtype if phi.dtype in (np.float32, np.float64) else np.float32).eps)
        rows, squares = rows + float(effective_rows(w).sum()), squares + w @ y.astype(np.float64) ** 2
        for i, inverse in enumerate(shrinkage):
            left = 1 - np.minimum(w, 1) * (z**2 @ inverse)
            residual = y - z @ (inverse[:, None] * turned)
            # a row that alone decides its direction is learned by heart, and says nothing of others
            errors[i] += w @ np.sum((residual / left[:, None]) ** 2, 1) if np.all(left > least) else np.inf
    if not np.isclose(rows, state.rows) or not np.allclose(
        squares, state.squares, atol=1e-6 * np.max(squares, initial=0)
    ):
        raise ValueError(
            f"The state is of {state.rows:g} rows, and the blocks have {rows:g}, or other ones. Give the same rows, with the "
            "same weights."
        )
    weights = np.stack([vectors @ (inverse[:, None] * turned) for inverse in shrinkage])
    return RidgePath(chosen, weights, errors / max(rows, 1))


class FeaturePosterior(NamedTuple):
    """A Gaussian process whose kernel is phi . phi', given the rows of a state; made by `feature_posterior`."""

    weights: np.ndarray  # their mean
    root: np.ndarray  # a matrix R with R^T R the covariance of the weights

    def mean(self, phi: Any) -> np.ndarray:
        """(n, outputs)."""
        return self._rows(phi) @ self.weights

    def variance(self, phi: Any) -> np.ndarray:
        """(n,), of the function itself; add the noise for that of a target."""
        return np.sum((self._rows(phi) @ self.root.T) ** 2, 1)

    def covariance(self, phi: Any) -> np.ndarray:
        """(n, n)."""
        half = self._rows(phi) @ self.root.T
        return half @ half.T

    def _rows(self, phi: Any) -> np.ndarray:
        rows = np.asarray(phi, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.weights):
            raise ValueError(f"Features are (n, {len(self.weights)}), as those of the state, not {rows.shape}.")
        return rows


def feature_posterior(state: RidgeState, noise: float) -> FeaturePosterior:
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


def _by_cholesky(state: RidgeState, penalties: np.ndarray) -> RidgePath:
    weights, scores = [], []
    identity = np.eye(len(state.gram))
    for penalty in penalties:
        factor = linalg.cho_factor(state.gram + penalty * identity, lower=True)
        w = linalg.cho_solve(factor, state.moment)
        residual = np.sum(state.squares) - 2 * np.sum(w * state.moment) + np.sum(w * (state.gram @ w))
        freedom = np.trace(linalg.cho_solve(factor, state.gram))
        scores.append(gcv(state.rows, residual, freedom))
        weights.append(w)
    return RidgePath(penalties, np.stack(weights), np.array(scores))


def gcv(rows: float, residual: float, freedom: float) -> float:
    """Generalised cross-validation, n residual / (n - degrees of freedom)^2 (Golub, Heath and Wahba, 1979)."""
    left = rows - freedom
    return float(rows * max(residual, 0.0) / left**2) if left > 1e-9 * max(rows, 1) else float("inf")


def cross_validate(folds: Sequence[RidgeState], penalties: Any) -> RidgePath:
    """Solutions on all rows, each scored by the mean squared error on every fold of the solution without it."""
    if isinstance(folds, RidgeState) or len(folds) < 2:
        raise ValueError(
            f"Cross-validation takes a list of two states at least, one for each fold, not {_number(folds)}."
        )
    chosen = penalties_of(penalties)
    whole = merge(*folds)
    errors = np.zeros(len(chosen))
    for fold in folds:
        for i, w in enumerate(solve(_without(whole, fold), chosen).weights):
            errors[i] += np.sum(fold.squares) - 2 * np.sum(w * fold.moment) + np.sum(w * (fold.gram @ w))
    return RidgePath(chosen, solve(whole, chosen).weights, errors / whole.rows)


def _number(folds: Any) -> str:
    return "one state" if isinstance(folds, RidgeState) else str(len(folds))


def penalties_of(given: Any) -> np.ndarray:
    """Penalties, one or several, checked."""
    try:
        penalties = np.atleast_1d(np.asarray(given, np.float64))
    except (TypeError, ValueError):
        penalties = np.empty(0)
    if penalties.ndim != 1 or not len(penalties) or not (np.all(np.isfinite(penalties)) and np.all(penalties >= 0)):
        raise ValueError(f"penalties are numbers of 0 or more, not {given!r}.")
    return penalties
