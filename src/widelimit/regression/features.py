"""Ridge regression on features from their sums alone, on the host, for many penalties."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np
from jaxtyping import Float
from scipy import linalg

from .arrays import ArrayLike, Penalties
from .objective import Centred, Mean, Unit, absolute_penalties, check_penalties, effective_rows
from .path import Path, RidgePath, gcv
from .path import leave_one_out as leave_one_out_error
from .spectrum import decompose
from .sums import RidgeState, Sums, check_block, check_fit, common_mean, merge, subtract

Blocks = Iterable[tuple[ArrayLike, ...]]  # (phi, y) or (phi, y, weight)


def solve(state: RidgeState, penalties: ArrayLike) -> RidgePath:
    """The weights that minimise the squared error plus penalty |w|^2, with generalised cross-validation as their score.

    One eigendecomposition serves many penalties; for one or two, Cholesky factors are faster.
    """
    checked = check_penalties(penalties)
    if len(checked) <= 2 and np.all(checked > 0):
        with suppress(linalg.LinAlgError):  # a penalty too small for a factor
            return _solve_by_cholesky(state, checked)
    spectrum = decompose(state.gram)
    rotated = spectrum.vectors.T @ state.moment
    weights, scores = [], []
    for inverse in spectrum.inverses(checked):
        w = inverse[:, None] * rotated
        residual = np.sum(state.squares) - 2 * np.sum(w * rotated) + np.sum(spectrum.values[:, None] * w**2)
        scores.append(gcv(state.rows, residual, np.sum(spectrum.values * inverse)))
        weights.append(spectrum.vectors @ w)
    return RidgePath(checked, np.stack(weights), np.array(scores))


def _solve_by_cholesky(state: RidgeState, penalties: Penalties) -> RidgePath:
    weights, scores = [], []
    identity = np.eye(len(state.gram))
    for penalty in penalties:
        factor = linalg.cho_factor(state.gram + penalty * identity, lower=True)
        w = linalg.cho_solve(factor, state.moment)
        freedom = np.trace(linalg.cho_solve(factor, state.gram))
        scores.append(gcv(state.rows, _squared_error(state, w), freedom))
        weights.append(w)
    return RidgePath(penalties, np.stack(weights), np.array(scores))


def _squared_error(state: RidgeState, weights: Float[np.ndarray, "features outputs"]) -> float:
    """|y - phi w|^2 of the rows of a state, summed over outputs."""
    return float(np.sum(state.squares) - 2 * np.sum(weights * state.moment) + np.sum(weights * (state.gram @ weights)))


def leave_one_out(state: RidgeState, penalties: ArrayLike, blocks: Blocks) -> RidgePath:
    """As `solve`, scored by the mean squared error of every row under the solution without it, exactly.

    `blocks` gives the rows of the state once more, as (phi, y) or (phi, y, weight). The error without a row is its error
    with it over 1 - h, where h = phi (phi^T phi + penalty)^-1 phi is what the row says about itself; of a weight above 1,
    only 1 is left out.
    """
    checked = check_penalties(penalties)
    spectrum = decompose(state.gram)
    rotated = spectrum.vectors.T @ state.moment
    inverses = spectrum.inverses(checked)
    errors, rows, squares = np.zeros(len(checked)), 0.0, np.zeros_like(state.squares)
    for block_phi, block_y, *weight in blocks:
        phi, y = check_block(block_phi, block_y)
        check_fit(state, phi, y)
        w = np.asarray(weight[0], np.float64) if weight and weight[0] is not None else np.ones(len(phi))
        z = phi.astype(np.float64) @ spectrum.vectors
        least = np.sqrt(np.finfo(phi.dtype if phi.dtype in (np.float32, np.float64) else np.float32).eps)
        rows, squares = rows + float(effective_rows(w).sum()), squares + w @ y.astype(np.float64) ** 2
        for i, inverse in enumerate(inverses):
            left = 1 - np.minimum(w, 1) * (z**2 @ inverse)
            residual = np.sqrt(w)[:, None] * (y - z @ (inverse[:, None] * rotated))
            errors[i] += leave_one_out_error(residual, left, float(least))
    same = np.allclose(squares, state.squares, atol=1e-6 * np.max(squares, initial=0))
    if not (np.isclose(rows, state.rows) and same):
        raise ValueError(
            f"The state is of {state.rows:g} rows, and the blocks have {rows:g}, or other ones. Give the same rows, with the "
            "same weights."
        )
    return RidgePath(checked, spectrum.solve(state.moment, checked), errors / max(rows, 1))


def cross_validate(folds: Sequence[RidgeState], penalties: ArrayLike) -> RidgePath:
    """Solutions on all rows, each scored by the mean squared error on every fold of the solution without it."""
    if isinstance(folds, RidgeState) or len(folds) < 2:
        number = "one state" if isinstance(folds, RidgeState) else len(folds)
        raise ValueError(f"Cross-validation takes a list of two states at least, one for each fold, not {number}.")
    checked = check_penalties(penalties)
    total = merge(*folds)
    errors = np.zeros(len(checked))
    for fold in folds:
        errors += [_squared_error(fold, weights) for weights in solve(subtract(total, fold), checked).weights]
    return RidgePath(checked, solve(total, checked).weights, errors / total.rows)


def solve_sums(
    parts: list[Sums], penalties: ArrayLike, by: str = "gcv", blocks: Blocks = (), *, centred: Centred, unit: Unit
) -> tuple[Path, Mean]:
    """The path of the rows of all parts, and the means that were subtracted.

    `by` is "gcv"; "folds", of which every part is one; or "loo", for which `blocks` gives all rows once more.
    """
    mean = common_mean(parts, centred)
    states = [part.centre(mean) for part in parts]
    diagonal = sum(float(np.trace(state.gram)) for state in states) / max(sum(state.rows for state in states), 1)
    absolute = absolute_penalties(penalties, unit, diagonal)
    if by == "folds":
        path = cross_validate(states, absolute)
    elif by == "loo":
        path = leave_one_out(merge(*states), absolute, (_centre_block(mean, centred, *block) for block in blocks))
    else:
        path = solve(merge(*states), absolute)
    return Path(*path), mean


def _centre_block(
    mean: Mean, centred: Centred, phi: ArrayLike, y: ArrayLike, *weight: ArrayLike
) -> tuple[ArrayLike, ...]:
    rows = np.asarray(phi)  # in their own precision where they are not centred: what is rounding depends on it
    return rows - np.asarray(mean.rows) if centred == "all" else rows, np.asarray(y) - mean.targets, *weight
