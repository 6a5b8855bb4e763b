"""Ridge regression tile by tile: against NumPy, features of both shapes, and kernels."""

import jax.numpy as jnp
import numpy as np
import pytest

from widelimit.regression import device as ridge

RNG = np.random.default_rng(0)
PENALTIES = np.array([1e-3, 1e-1, 1.0])
LABELS = RNG.integers(0, 3, 60)
Y = np.eye(3)[LABELS]


def features(m, rows=60, shift=30.0):
    """Nearly all of the products is the constant part, as in deep networks."""
    return (RNG.normal(size=(rows, m)) + shift).astype(np.float32)


def by_numpy(phi, y, rows):
    """(penalties, rows, outputs) from the centred kernel."""
    phi, rows = phi.astype(np.float64), rows.astype(np.float64)
    mean = phi.mean(0)
    K, cross = (phi - mean) @ (phi - mean).T, (rows - mean) @ (phi - mean).T
    shifts = PENALTIES * np.trace(K) / len(K)
    return np.stack([cross @ np.linalg.solve(K + s * np.eye(len(K)), y - y.mean(0)) + y.mean(0) for s in shifts])


@pytest.mark.parametrize("tile", [16, 4096])
@pytest.mark.parametrize("m", [24, 40, 70])  # fewer than the 40 rows, as many, and more
def test_features_and_kernels_give_the_solution(m, tile):
    phi = features(m)
    expected = by_numpy(phi[:40], Y[:40], phi[40:55])
    found = ridge.feature_path(jnp.asarray(phi), Y[:40], PENALTIES, stop=55, tile=tile)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    K = phi.astype(np.float64) @ phi[:45].T.astype(np.float64)
    np.testing.assert_allclose(ridge.kernel_path(K, Y[:40], PENALTIES, stop=55, tile=tile), expected, rtol=0, atol=1e-8)


def test_as_many_features_as_rows_from_either_side():
    phi = features(39)
    fewer = ridge.feature_path(phi, Y[:40], PENALTIES)
    phi = np.concatenate([phi, np.ones((60, 3), np.float32)], axis=1)  # constant columns say nothing
    np.testing.assert_allclose(ridge.feature_path(phi, Y[:40], PENALTIES), fewer, rtol=0, atol=1e-8)


def test_kernels_of_float32_and_features_of_bfloat16_are_widened():
    K = features(20, shift=1.0)
    K = K @ K.T
    np.testing.assert_array_equal(
        ridge.kernel_path(jnp.asarray(K), Y[:40], PENALTIES),
        ridge.kernel_path(K.astype(np.float64), Y[:40], PENALTIES),
    )
    phi = jnp.asarray(features(20, shift=1.0), jnp.bfloat16)
    expected = by_numpy(np.asarray(phi[:40], np.float64), Y[:40], np.asarray(phi[40:], np.float64))
    np.testing.assert_allclose(ridge.feature_path(phi, Y[:40], PENALTIES), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("path", [ridge.feature_path, ridge.kernel_path])
def test_a_penalty_is_chosen_on_rows_held_out(path):
    phi = features(30)
    phi[:, :3] += 3 * Y
    rows = phi if path is ridge.feature_path else phi.astype(np.float64) @ phi[:50].T
    found = ridge.chosen_on_held_out(path, rows, Y[:50], 10, PENALTIES)
    predicted = by_numpy(phi[:40], Y[:40], phi[40:50])
    assert found.accuracies.tolist() == np.mean(predicted.argmax(2) == LABELS[40:50], axis=1).tolist()
    np.testing.assert_allclose(found.errors, np.mean((predicted - Y[40:50]) ** 2, axis=(1, 2)), rtol=1e-6)
    assert found.chosen in PENALTIES


def test_of_equal_accuracies_the_least_error_is_chosen():
    found = ridge.HeldOut(PENALTIES, np.array([0.1, 0.3, 0.2]), np.array([0.5, 0.7, 0.7]))
    assert found.chosen == 1.0


def test_a_penalty_that_is_too_small_is_passed_over():
    phi = np.repeat(features(4, shift=0.0), 5, axis=1)[:, :18]  # of rank 4
    phi[:, 0] *= 1e4
    found = ridge.chosen_on_held_out(ridge.kernel_path, phi @ phi.T, Y, 10, [1e-30, 1e-2])
    assert found.errors[0] == np.inf
    assert found.accuracies[0] == 0
    assert found.chosen == 1e-2
    with pytest.raises(ValueError, match="Every penalty is too small for a Cholesky factor"):
        ridge.kernel_path(phi @ phi.T, Y[:40], [1e-30])


BAD = {
    "no rows to predict": (lambda: ridge.feature_path(features(4), Y, [1.0]), "of more rows than n"),
    "targets": (lambda: ridge.feature_path(features(4), LABELS[:40], [1.0]), "Targets are"),
    "columns": (lambda: ridge.kernel_path(features(20), Y[:40], [1.0]), "40 rows are fitted, and the kernels are"),
    "held out": (
        lambda: ridge.chosen_on_held_out(ridge.feature_path, features(4), Y, 60, [1.0]), "1 to 59 can be held out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        attempt()
