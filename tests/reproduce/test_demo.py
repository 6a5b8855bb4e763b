"""The demonstration: its data are honest, it finds where lines cross, and it runs to the end."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from widelimit.reproduce import demo
from widelimit.reproduce.demo import measure, show

NONE = measure.Accuracy(1.0, 0.0)


def steps(rows, seconds, kernel=0.0):
    return [demo.Step(n, t, NONE, kernel) for n, t in zip(rows, seconds, strict=True)]


def test_digits_are_split_in_proportion_and_scaled_one_by_one():
    data = demo.scale(demo.digits(train_rows=300))
    assert data.train.shape == (300, 64)
    assert data.test.shape == (1497, 64)
    np.testing.assert_allclose(np.mean(data.train**2, axis=1), 1, rtol=1e-12)
    assert np.bincount(data.train_labels).min() >= 28


def test_moving_by_nothing_changes_nothing(monkeypatch):
    x = demo.digits(train_rows=100).train
    assert np.abs(measure.move(x, seed=0) - x).max() > 1
    monkeypatch.setattr(measure, "SHIFT", 0.0)
    monkeypatch.setattr(measure, "TURN", 0.0)
    np.testing.assert_allclose(measure.move(x, seed=0), x, atol=1e-12)


def test_more_rows_come_from_training_digits_alone():
    data = demo.digits(train_rows=100)
    swapped = data._replace(test=np.zeros_like(data.test))
    np.testing.assert_array_equal(demo.grow(data, 250).train, demo.grow(swapped, 250).train)
    assert demo.grow(data, 250).train_labels.tolist()[100:200] == data.train_labels.tolist()


def test_kernel_and_solution_are_projected_by_their_own_powers():
    (last,) = measured = steps([100], [10.0], kernel=4.0)
    assert demo.project(measured, 100) == last.seconds
    assert demo.project(measured, 200) == 4 * 4 + 6 * 8


def test_lines_cross_where_their_logarithms_meet():
    rows = [100, 400, 1600]
    exact, sketched = steps(rows, [1.0, 16.0, 256.0]), steps(rows, [4.0, 4.0, 4.0])
    found = demo.crossover(exact, sketched)
    assert found.rows == pytest.approx(200)
    assert not found.projected
    assert "about 200 rows on." in show.crossing_sentence(found, sketched)


def test_lines_may_cross_where_one_is_projected():
    exact, sketched = steps([100], [1.0]), steps([100, 1000], [10.0, 10.0])
    found = demo.crossover(exact, sketched)
    assert found.rows == pytest.approx(100 * 10 ** (1 / 3))  # 1000 times the seconds at 10 times the rows
    assert found.projected
    assert "as projected" in show.crossing_sentence(found, sketched)


def test_lines_may_not_cross():
    rows = [100, 200]
    slow, fast = steps(rows, [5.0, 5.0]), steps(rows, [1.0, 1.0])
    assert demo.crossover(fast, slow) is None
    assert "exact kernel is faster" in show.crossing_sentence(None, slow)
    assert demo.crossover(slow, fast) == (100, False)
    assert "or fewer" in show.crossing_sentence(demo.crossover(slow, fast), fast)


def test_lines_that_cross_twice_count_from_the_last_crossing():
    exact, sketched = steps([1, 2, 4, 8], [2.0, 1.0, 1.0, 4.0]), steps([1, 2, 4, 8], [1.0, 2.0, 2.0, 2.0])
    assert demo.crossover(exact, sketched).rows == pytest.approx(4 * np.sqrt(2))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.2 s"), (9.96, "10 s"), (600, "10 min"), (36000, "10 h"), (864000, "10 days")]
)
def test_times_are_said_in_their_unit(seconds, words):
    assert show.label(seconds) == words


def test_a_small_run_reads_digits_and_writes_plots_and_results(tmp_path):
    console = Console(record=True, width=120, file=io.StringIO())
    found = demo.run(tmp_path / "new", (200, 256), 200, 128, 250, depth=1, console=console)
    assert [path.name for path in found.files] == ["digits.png", "growth.png", "results.json"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["digits.png", "growth.png", "results.json"]
    for path in found.files[:2]:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 150_000
    assert len(found.scores) == 5
    assert all(score.accuracy.share > 0.8 for score in found.scores.values())
    assert found.scores[demo.EXACT].accuracy.share > 0.95
    assert [step.rows for step in found.exact] == [200]
    assert [step.rows for step in found.sketched] == [200, 256]
    assert all(step.accuracy.share > 0.3 for step in found.exact + found.sketched)
    written = json.loads(found.files[2].read_text())
    assert written["digits"][demo.EXACT]["accuracy"]["share"] == found.scores[demo.EXACT].accuracy.share
    assert written["exact_projected_seconds"].keys() == {"256"}
    assert {"versions", "seed", "cores"} <= written.keys()
    text = console.export_text()
    assert "logistic regression" in text
    assert "projected from 200 rows" in text


def test_a_folder_that_cannot_be_made_ends_with_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(SystemExit, match=r"Cannot write to the folder '.*taken': File exists\. Choose another"):
        demo.main(["--out", str(tmp_path / "taken")])


def test_sizes_without_one_for_the_exact_kernel_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at most exact_rows=100"):
        demo.run(tmp_path, (200, 300), exact_rows=100)
