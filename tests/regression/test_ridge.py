"""Ridge regression as a stream is ridge regression."""

import numpy as np
import pytest

from widelimit import linear as ridge

RNG = np.random.default_rng(0)
PHI, Y = RNG.normal(size=(60, 9)), RNG.normal(size=(60, 2))
PENALTIES = [1e-3, 0.1, 1.0, 30.0]


def direct(phi, y, penalty):
    return np.linalg.solve(phi.T @ phi + penalty * np.eye(phi.shape[1]), phi.T @ y)


def streamed(blocks):
    state = None
    for rows in blocks:
        state = ridge.update(state, PHI[rows], Y[rows])
    return state


@pytest.mark.parametrize("penalties", [PENALTIES, PENALTIES[1:2]])
def test_blocks_give_what_the_whole_gives(penalties):
    state = streamed([slice(0, 7), slice(7, 30), slice(30, 60)])
    path = ridge.solve(state, penalties)
    for penalty, weights in zip(penalties, path.weights, strict=True):
        np.testing.assert_allclose(weights, direct(PHI, Y, penalty), rtol=1e-8)
    parts = ridge.merge(streamed([slice(0, 20)]), streamed([slice(20, 60)]))
    np.testing.assert_allclose(ridge.solve(parts, penalties).weights, path.weights, rtol=1e-8)


@pytest.mark.parametrize("penalties", [PENALTIES, PENALTIES[1:2]])
def test_scores_are_generalised_cross_validation(penalties):
    path = ridge.solve(streamed([slice(0, 60)]), penalties)
    for penalty, score in zip(penalties, path.scores, strict=True):
        hat = PHI @ np.linalg.solve(PHI.T @ PHI + penalty * np.eye(9), PHI.T)
        residual = np.sum((Y - hat @ Y) ** 2)
        np.testing.assert_allclose(score, 60 * residual / (60 - np.trace(hat)) ** 2, rtol=1e-8)
    assert np.array_equal(path.best, path.weights[np.argmin(path.scores)])


def test_folds_are_scored_by_rows_they_do_not_hold():
    folds = [slice(0, 20), slice(20, 40), slice(40, 60)]
    path = ridge.cross_validate([streamed([fold]) for fold in folds], PENALTIES)
    for i, penalty in enumerate(PENALTIES):
        error = 0.0
        for fold in folds:
            rest = np.ones(60, bool)
            rest[fold] = False
            error += np.sum((Y[fold] - PHI[fold] @ direct(PHI[rest], Y[rest], penalty)) ** 2)
        np.testing.assert_allclose(path.scores[i], error / 60, rtol=1e-8)
        np.testing.assert_allclose(path.weights[i], direct(PHI, Y, penalty), rtol=1e-8)


def test_weights_count_rows():
    twice = ridge.update(None, PHI, Y, weight=np.full(60, 2.0))
    both = ridge.merge(streamed([slice(0, 60)]), streamed([slice(0, 60)]))
    for a, b in zip(twice, both, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_float32_blocks_are_added_in_float64():
    state = None
    for _ in range(200):
        state = ridge.update(state, PHI.astype(np.float32), Y.astype(np.float32))
    assert state.gram.dtype == np.float64
    np.testing.assert_allclose(state.gram / 200, PHI.T @ PHI, rtol=0, atol=1e-5 * 60)


def test_no_penalty_and_repeated_features():
    doubled = np.concatenate([PHI, PHI], axis=1)
    path = ridge.solve(ridge.update(None, doubled, Y), [0.0])
    np.testing.assert_allclose(doubled @ path.weights[0], PHI @ np.linalg.lstsq(PHI, Y, rcond=None)[0], atol=1e-8)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e6])
def test_weights_of_repeated_features_are_the_smallest(size):
    """Whatever the unit of the features: what is 0 is seen beside the largest eigenvalue."""
    doubled = size * np.concatenate([PHI, PHI], axis=1)
    weights = ridge.solve(ridge.update(None, doubled, Y), [0.0]).weights[0]
    np.testing.assert_allclose(size * weights, np.linalg.pinv(doubled / size) @ Y, rtol=0, atol=1e-10)


def test_paths_have_their_lowest_score():
    path = ridge.RidgePath(np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(3, 2, 1), np.array([2.0, 1.0, 1.0]))
    np.testing.assert_array_equal(path.best, [[2.0], [3.0]])
    kernel = ridge.KernelPath(path.penalties, path.weights, path.scores)
    assert kernel.chosen == 1
    np.testing.assert_array_equal(kernel.coefficients, path.weights)
    assert path._fields == ("penalties", "weights", "scores")
    assert kernel._fields == ("penalties", "coefficients", "scores")
    penalties, weights, scores = path
    np.testing.assert_array_equal(weights, path.weights)
    assert (penalties[0], scores[0]) == (1.0, 2.0)


BAD = {
    "rows": (lambda: ridge.update(None, PHI, Y[:5]), "A block has features"),
    "features": (lambda: ridge.update(ridge.empty(4, 2), PHI, Y), "The state is of 4 features"),
    "nan": (lambda: ridge.update(None, np.nan * PHI, Y), "row 0 of a block are NaN or infinite"),
    "weight": (lambda: ridge.update(None, PHI, Y, weight=-np.ones(60)), "weight is a number of 0 or more"),
    "penalties": (lambda: ridge.solve(ridge.empty(3, 1), [-1.0]), "penalties are numbers of 0 or more"),
    "folds": (lambda: ridge.cross_validate([ridge.empty(3, 1)], [1.0]), "a list of two states at least"),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        attempt()


def test_leave_one_out_leaves_every_row_out():
    phi, y = PHI, Y
    state = ridge.update(None, phi, y)
    penalties = [0.1, 1.0, 10.0]
    path = ridge.leave_one_out(state, penalties, [(phi[:30], y[:30]), (phi[30:], y[30:])])
    expected = np.zeros(3)
    for i in range(len(phi)):
        others = np.arange(len(phi)) != i
        weights = ridge.solve(ridge.update(None, phi[others], y[others]), penalties).weights
        expected += np.sum((y[i] - phi[i] @ weights) ** 2, -1) / len(phi)
    np.testing.assert_allclose(path.scores, expected, rtol=1e-9)
    np.testing.assert_allclose(path.weights, ridge.solve(state, penalties).weights, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="Give the same rows"):
        ridge.leave_one_out(state, penalties, [(phi[:30], y[:30])])
    few = ridge.update(None, phi[:5], y[:5])  # rows that are learned by heart say nothing
    assert np.all(ridge.leave_one_out(few, [0.0, 1.0], [(phi[:5], y[:5])]).scores[0] == np.inf)


def test_the_posterior_on_features_is_that_of_their_kernel():
    phi, y = PHI, Y
    train, test = phi[:40], phi[40:]
    found = ridge.feature_posterior(ridge.update(None, train, y[:40]), noise=0.3)
    exact = ridge.posterior(train @ train.T, y[:40], test @ train.T, test @ test.T, noise=0.3)
    np.testing.assert_allclose(found.mean(test), exact.mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.covariance(test), exact.covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.variance(test), np.diag(exact.covariance), rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="noise"):
        ridge.feature_posterior(ridge.update(None, train, y[:40]), noise=0)
