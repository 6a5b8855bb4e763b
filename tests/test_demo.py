"""The demonstration: its choice of penalty is honest, and it runs to the end."""

import numpy as np
import pytest
from rich.console import Console

import widelimit.demo as demo


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 30.0])
def test_leave_one_out_is_what_refitting_without_each_row_gives(penalty):
    rng = np.random.default_rng(0)
    n = 25
    x, targets = rng.normal(size=(n, 30)), rng.normal(size=(n, 3))
    kernel = x @ x.T

    def error_without(i):
        rest = np.delete(np.arange(n), i)
        coefficients = np.linalg.solve(kernel[np.ix_(rest, rest)] + penalty * np.eye(n - 1), targets[rest])
        return targets[i] - kernel[i, rest] @ coefficients

    brute_force = np.stack([error_without(i) for i in range(n)])
    errors = demo.leave_one_out(*np.linalg.eigh(kernel), targets, penalty)
    np.testing.assert_allclose(errors, brute_force, rtol=0, atol=1e-11 * np.abs(brute_force).max())


def test_the_penalty_is_the_best_of_its_grid():
    rng = np.random.default_rng(1)
    x, targets = rng.normal(size=(20, 8)), rng.normal(size=(20, 2))
    kernel = x @ x.T
    penalties = demo.PENALTIES * kernel.diagonal().mean()
    errors = [np.sum(demo.leave_one_out(*np.linalg.eigh(kernel), targets, penalty) ** 2) for penalty in penalties]
    expected = np.linalg.solve(kernel + penalties[np.argmin(errors)] * np.eye(20), targets)
    np.testing.assert_allclose(demo.ridge_coefficients(kernel, targets), expected, rtol=1e-8)


def test_rows_are_scaled_one_by_one_and_split_in_proportion():
    data = demo.digits(train_rows=300)
    assert data.train.shape == (300, 64)
    assert data.test.shape == (1497, 64)
    np.testing.assert_allclose(np.linalg.norm(data.train, axis=1), 8, rtol=1e-12)
    assert np.bincount(data.train_labels).min() >= 28


def test_a_small_run_reads_digits_and_draws_the_duals(tmp_path):
    activations = {name: demo.ACTIVATIONS[name] for name in ("relu", "erf")}
    console = Console(record=True, quiet=True, width=100)
    results = demo.run(tmp_path, activations, train_rows=300, console=console)
    assert list(results.scores) == ["relu", "erf"]
    assert all(min(score.nngp, score.ntk) > 0.95 for score in results.scores.values())
    assert min(results.baselines.values()) > 0.9
    assert results.plot.read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_made_ends_with_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(SystemExit, match=r"Cannot write to the folder '.*taken': File exists\. Choose another"):
        demo.main(["--out", str(tmp_path / "taken")])
