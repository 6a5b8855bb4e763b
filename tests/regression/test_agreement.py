"""One regression, solved from a kernel matrix, from sums of features, and on a device: the same predictions and scores.

The reference writes the objective down as least squares, min |S (y - mean - (phi - mean) b)|^2 + penalty |b|^2.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from widelimit.regression import device
from widelimit.regression.device import scored
from widelimit.regression.features import solve_sums
from widelimit.regression.kernel import kernel_problem
from widelimit.regression.sums import empty_sums

FOLDS, TILE = 3, 16
# The ends of the estimators' grid, in shares of the mean diagonal, and what lies between.
SHARES = np.array([1e-7, 1e-4, 1.0, 1e3])


class Case(NamedTuple):
    phi: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    new: np.ndarray
    centred: str
    unit: str
    penalties: np.ndarray

    @property
    def both(self):
        """The fitted rows and new ones, all of which are predicted."""
        return np.concatenate([self.phi, self.new])

    @property
    def penalties_are(self):
        return {"centred": self.centred, "unit": self.unit}


def make(shape, weighted, centred, unit):
    """A case, and its penalties in the unit that is asked for."""
    rng = np.random.default_rng(0)
    n, m, outputs = {"few rows": (12, 24, 1), "many rows": (40, 12, 3), "repeated rows": (36, 24, 2)}[shape]
    phi, y = rng.normal(size=(n, m)) + 1, rng.normal(size=(n, outputs)) + 2
    if shape == "repeated rows":
        phi[18:] = phi[:18]  # with other targets, and of a lower rank than there are features
    w = rng.choice([0.0, 0.4, 1.0, 2.5], size=n) if weighted else np.ones(n)
    centre = w @ phi / w.sum() if centred == "all" else 0
    diagonal = w @ np.sum((phi - centre) ** 2, 1) / np.where(w > 0, np.maximum(w, 1), 0).sum()
    penalties = SHARES if unit == "share" else SHARES * diagonal
    return Case(phi, y, w, rng.normal(size=(5, m)) + 1, centred, unit, penalties), SHARES * diagonal


def least_squares(case, absolute):
    """(penalties, rows, outputs) of the fitted rows and the new ones."""
    phi, y, w = case.phi, case.y, case.weight
    x0 = w @ phi / w.sum() if case.centred == "all" else np.zeros(phi.shape[1])
    y0 = np.zeros(y.shape[1]) if case.centred == "nothing" else w @ y / w.sum()
    root = np.sqrt(w)[:, None]
    right = np.concatenate([root * (y - y0), np.zeros((phi.shape[1], y.shape[1]))])
    found = []
    for penalty in absolute:
        left = np.concatenate([root * (phi - x0), np.sqrt(penalty) * np.eye(phi.shape[1])])
        found.append((case.both - x0) @ np.linalg.lstsq(left, right, rcond=None)[0] + y0)
    return np.stack(found)


def from_kernel(case, by="loo"):
    problem = kernel_problem(case.phi @ case.phi.T, case.y, case.weight, centred=case.centred)
    path = problem.path(case.penalties, case.unit, by)
    return path, problem.mean.predict(case.both @ case.phi.T, path.solutions)


def from_sums(case, by="gcv"):
    """In blocks of 7 rows; those of weight 0 take no turn in folds."""
    parts = [empty_sums(case.phi.shape[1], case.y.shape[1]) for _ in range(FOLDS if by == "folds" else 1)]
    turn = (np.cumsum(case.weight > 0) - 1) % len(parts)
    blocks = [np.arange(start, min(start + 7, len(case.y))) for start in range(0, len(case.y), 7)]
    for rows, k in product(blocks, range(len(parts))):
        own = rows[turn[rows] == k]
        parts[k] = parts[k].add(case.phi[own], case.y[own], case.weight[own])
    again = ((case.phi[rows], case.y[rows], case.weight[rows]) for rows in blocks)
    path, mean = solve_sums(parts, case.penalties, by, again, **case.penalties_are)
    return path, mean.predict(case.both, path.solutions)


def features_on_device(case):
    path, mean = device.solve_features(case.both, case.y, case.penalties, case.weight, **case.penalties_are, tile=TILE)
    return path, device.predict_rows(path, mean, case.both, 0, len(case.both), TILE)


def kernel_on_device(case):
    K = case.both @ case.phi.T
    path, mean = device.solve_kernel(K, case.y, case.penalties, case.weight, **case.penalties_are, tile=TILE)
    return path, device.predict_rows(path, mean, K, 0, len(K), TILE)


CASES = list(
    product(
        ("few rows", "many rows", "repeated rows"), (False, True), ("nothing", "targets", "all"), ("absolute", "share")
    )
)


SOLVERS = (from_kernel, from_sums, features_on_device, kernel_on_device)


@pytest.mark.parametrize(("shape", "weighted", "centred", "unit"), CASES)
def test_all_solvers_agree(shape, weighted, centred, unit):
    """The least penalty by the normal equations: rounding alone, over so little, is seen in predictions of new rows."""
    case, absolute = make(shape, weighted, centred, unit)
    expected = least_squares(case, absolute)
    for solver in SOLVERS:
        path, predicted = solver(case)
        np.testing.assert_allclose(path.penalties, absolute, rtol=1e-12, err_msg=solver.__name__)
        np.testing.assert_allclose(predicted[1:], expected[1:], rtol=0, atol=1e-8, err_msg=solver.__name__)
        assert backward_error(case, path, predicted) < 1e-13, solver.__name__


def backward_error(case, path, predicted):
    """What (A + penalty) c = t is off by, over |A| |c| + |t|: t - A c is that of the residuals of the fitted rows."""
    c, w = np.asarray(path.solutions), case.weight[:, None]
    x0 = case.weight @ case.phi / case.weight.sum() if case.centred == "all" else 0
    phi = case.phi - x0
    left, A = (phi.T, phi.T @ (w * phi)) if c.shape[1] == phi.shape[1] else (np.eye(len(phi)), w * (phi @ phi.T))
    off = left @ (w * (case.y - predicted[:, : len(phi)])) - path.penalties[:, None, None] * c
    size = np.linalg.norm(A) * np.linalg.norm(c, axis=(1, 2)) + np.linalg.norm(left @ (w * case.y))
    return np.max(np.linalg.norm(off, axis=(1, 2)) / size)


@pytest.mark.parametrize("by", ["loo", "gcv", "folds"])
@pytest.mark.parametrize(("shape", "weighted", "centred", "unit"), CASES)
def test_all_scores_agree(shape, weighted, centred, unit, by):
    case, _ = make(shape, weighted, centred, unit)
    case = case._replace(penalties=case.penalties[1:])
    rows, sums = from_kernel(case, FOLDS if by == "folds" else by)[0], from_sums(case, by)[0]
    np.testing.assert_allclose(sums.scores, rows.scores, rtol=0, atol=1e-8 * rows.scores.max())
    assert sums.lowest == rows.lowest


@pytest.mark.parametrize(("shape", "weighted", "centred", "unit"), CASES)
def test_all_choose_the_same_penalty_on_rows_held_out(shape, weighted, centred, unit):
    case, _ = make(shape, weighted, centred, unit)
    case = case._replace(penalties=case.penalties[1:])
    y = np.random.default_rng(1).normal(size=(5, case.y.shape[1]))
    first, *others = (scored(solver(case)[1][:, -5:], y, case.penalties) for solver in SOLVERS)
    for other in others:
        np.testing.assert_allclose(other.errors, first.errors, rtol=1e-8)
        assert other.chosen == first.chosen


@pytest.mark.parametrize("solver", [from_kernel, from_sums])
def test_without_a_penalty_the_normal_equations_hold(solver):
    """Of repeated rows and more features than they span the least solution is taken; a device has no factor there."""
    case, _ = make("repeated rows", True, "all", "absolute")
    _, (predicted,) = solver(case._replace(penalties=np.zeros(1)))
    w, centre = case.weight, case.weight @ case.phi / case.weight.sum()
    gradient = (case.phi - centre).T @ (w[:, None] * (predicted[: len(w)] - case.y))
    np.testing.assert_allclose(gradient, 0, atol=1e-8 * np.abs(case.phi).max() * np.abs(case.y).max() * len(w))


def test_shares_of_nothing_are_absolute():
    """Rows that are all equal have no kernel after centring; the prediction is the mean of the targets."""
    case, _ = make("many rows", False, "all", "share")
    case = case._replace(phi=np.ones_like(case.phi), new=np.ones_like(case.new))
    for solver in SOLVERS:
        _, predicted = solver(case)
        np.testing.assert_allclose(predicted, np.broadcast_to(case.y.mean(0), predicted.shape), atol=1e-8)
