"""Ridge regression on features as a stream: blocks of rows go in, a path of solutions comes out.

A `RidgeState` holds the products of the features and targets seen so far, in float64; the rows themselves are not kept.
States of different blocks, workers or folds are added by `merge`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg


class RidgeState(NamedTuple):
    """What is known of the rows so far: phi^T phi, phi^T y, the squares of the targets, and how many rows there were."""

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
    """A state of no rows."""
    return RidgeState(np.zeros((features, features)), np.zeros((features, outputs)), np.zeros(outputs), 0.0)


def update(state: RidgeState | None, phi: Any, y: Any, weight: Any = None) -> RidgeState:
    """The state with a block of rows more; None starts one. `weight` counts rows more or less than once."""
    phi, y = np.asarray(phi), np.asarray(y)
    y = y[:, None] if y.ndim == 1 else y
    if phi.ndim != 2 or y.ndim != 2 or len(phi) != len(y):
        raise ValueError(
            f"A block has features (n, m) and targets (n,) or (n, outputs), not {phi.shape} and {y.shape}."
        )
    if not (np.all(np.isfinite(phi)) and np.all(np.isfinite(y))):
        raise ValueError("A block holds NaN or infinity. Look at the inputs that it comes from.")
    state = empty(phi.shape[1], y.shape[1]) if state is None else state
    if state.gram.shape[0] != phi.shape[1] or state.moment.shape[1] != y.shape[1]:
        raise ValueError(
            f"The state is of {state.gram.shape[0]} features and {state.moment.shape[1]} outputs, and the block has "
            f"{phi.shape[1]} and {y.shape[1]}."
        )
    w = np.ones(len(phi)) if weight is None else np.asarray(weight, np.float64)
    if w.shape != (len(phi),) or not np.all(w >= 0):
        raise ValueError(f"weight is a number of 0 or more for each of {len(phi)} rows, not of the shape {w.shape}.")
    left = phi if weight is None else phi * w[:, None].astype(phi.dtype)
    # the product of a block in its own precision, the sum over blocks in float64
    return RidgeState(
        state.gram + (left.T @ phi).astype(np.float64),
        state.moment + left.T.astype(np.float64) @ y.astype(np.float64),
        state.squares + w @ y.astype(np.float64) ** 2,
        state.rows + float(w.sum()),
    )


def merge(*states: RidgeState) -> RidgeState:
    """The state of all rows."""
    return RidgeState(*(sum(parts[1:], parts[0]) for parts in zip(*states, strict=True)))


def _without(whole: RidgeState, part: RidgeState) -> RidgeState:
    return RidgeState(
        whole.gram - part.gram, whole.moment - part.moment, whole.squares - part.squares, whole.rows - part.rows
    )


def solve(state: RidgeState, penalties: Any) -> RidgePath:
    """The weights that minimise the squared error plus penalty |w|^2, with generalised cross-validation as their score.

    One eigendecomposition serves many penalties; for one or two, Cholesky factors are faster.
    """
    chosen = _penalties(penalties)
    if len(chosen) <= 2 and np.all(chosen > 0):
        return _by_cholesky(state, chosen)
    values, vectors = linalg.eigh(state.gram)
    values = np.maximum(values, 0)
    turned = vectors.T @ state.moment
    floor = len(values) * np.finfo(np.float64).eps * max(values.max(initial=0), 1e-300)
    weights, scores = [], []
    for penalty in chosen:
        shifted = values + penalty
        inverse = np.where(shifted > floor, 1 / np.where(shifted > floor, shifted, 1), 0)
        w = inverse[:, None] * turned
        residual = np.sum(state.squares) - 2 * np.sum(w * turned) + np.sum(values[:, None] * w**2)
        scores.append(_gcv(state, residual, np.sum(values * inverse)))
        weights.append(vectors @ w)
    return RidgePath(chosen, np.stack(weights), np.array(scores))


def _by_cholesky(state: RidgeState, penalties: np.ndarray) -> RidgePath:
    weights, scores = [], []
    identity = np.eye(len(state.gram))
    for penalty in penalties:
        factor = linalg.cho_factor(state.gram + penalty * identity, lower=True)
        w = linalg.cho_solve(factor, state.moment)
        residual = np.sum(state.squares) - 2 * np.sum(w * state.moment) + np.sum(w * (state.gram @ w))
        freedom = np.trace(linalg.cho_solve(factor, state.gram))
        scores.append(_gcv(state, residual, freedom))
        weights.append(w)
    return RidgePath(penalties, np.stack(weights), np.array(scores))


def _gcv(state: RidgeState, residual: float, freedom: float) -> float:
    """Golub, Heath and Wahba (1979): n residual / (n - degrees of freedom)^2."""
    left = state.rows - freedom
    return float(state.rows * max(residual, 0.0) / left**2) if left > 1e-9 * max(state.rows, 1) else float("inf")


def cross_validate(folds: Sequence[RidgeState], penalties: Any) -> RidgePath:
    """Solutions on all rows, each scored by the mean squared error on every fold of the solution without it."""
    if len(folds) < 2:
        raise ValueError(f"Cross-validation takes two folds at least, not {len(folds)}.")
    chosen = _penalties(penalties)
    whole = merge(*folds)
    errors = np.zeros(len(chosen))
    for fold in folds:
        for i, w in enumerate(solve(_without(whole, fold), chosen).weights):
            errors[i] += np.sum(fold.squares) - 2 * np.sum(w * fold.moment) + np.sum(w * (fold.gram @ w))
    return RidgePath(chosen, solve(whole, chosen).weights, errors / whole.rows)


def _penalties(given: Any) -> np.ndarray:
    penalties = np.atleast_1d(np.asarray(given, np.float64))
    if penalties.ndim != 1 or not len(penalties) or not (np.all(np.isfinite(penalties)) and np.all(penalties >= 0)):
        raise ValueError(f"penalties are numbers of 0 or more, not {given!r}.")
    return penalties
