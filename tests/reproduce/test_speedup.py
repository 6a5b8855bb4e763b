"""The experiment on exact against sketched time: its projections, and how it is shown."""

import numpy as np

from widelimit.reproduce import speedup, study, timing


def planted(kernel="ntk", device="cpu"):
    config = next(c for c in speedup.settings(False) if c["kernel"] == kernel)
    first = {"exact": 1.0, "features": 2.0}
    return {"config": config, "seconds a pair": 3e-4, "seconds an image": 0.084, "first calls": first, "device": device}


def test_projections():
    """The paper's own times give the paper's hours and ratios."""
    run = planted()
    row = speedup.table([run])[1]
    np.testing.assert_allclose(row["exact 60,000, h"], 3e-4 * 60_000 * 60_001 / 2 / 3600)
    for name in ("exact 60,000, h", "sketched 60,000, h", "exact 20,000, h", "its ratio to sketched 60,000", "ratio"):
        np.testing.assert_allclose(row[name], speedup.PAPER_ROW[name], rtol=0.02)
    np.testing.assert_allclose(row["to sketched 20,000"], 3 * row["its ratio to sketched 60,000"])


def test_any_part_of_the_runs_is_shown(tmp_path):
    full = planted(device="other") | {"config": speedup.settings(True)[0]}
    for part in ([planted()], [planted("nngp"), planted()], [planted(), full]):
        text = study.as_text(speedup.table(part))
        assert text.count("\n") == len(part) + 1
        assert "the paper" in text
        study.save_figure(speedup.STUDY, part, tmp_path / "a.svg")
        assert "normalised Gaussian, exact" in (tmp_path / "a.svg").read_text()


def test_in_small(monkeypatch):
    monkeypatch.setattr(speedup, "SHAPE", (4, 4, 3))
    config = speedup.settings(False)[-1] | {"columns": 32, "exact images": 3, "images": 4}
    found = speedup.compute(config)
    assert min(found["seconds a pair"], found["seconds an image"], *found["first calls"].values()) > 0
    assert found["first calls"]["features"] > 4 * found["seconds an image"]  # which compiles


def test_times_are_the_least_of_those_after_the_first(monkeypatch):
    calls, clock = [], iter([0, 7, 10, 13, 20, 22, 30, 31])

    def run():
        calls.append(len(calls))
        return np.full((), len(calls))

    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    assert timing.seconds(run, 2) == (7, 2)
    assert calls == [0, 1, 2]
    assert timing.pair_count(3) == 6
    clock = iter([10, 14])
    found, second = timing.time_second_call(run)
    assert (int(found), second) == (5, 4)
