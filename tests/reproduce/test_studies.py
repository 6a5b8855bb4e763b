"""The experiments that are many small runs: what they compute, and how they go on and fail."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.polynomial import hermite_e
from typer.testing import CliRunner

import widelimit as wl
from widelimit import reproduce as experiments
from widelimit.cli import app
from widelimit.datasets import Images
from widelimit.reproduce import dual_kernel, quadrature, study
from widelimit.reproduce.report import gather, page
from widelimit.reproduce.results import add_run, read_runs
from widelimit.reproduce.study import Study
from widelimit.storage.files import atomic_file, check_writable

COUNT = []


def counting(config):
    if len(COUNT) == 2:
        raise KeyboardInterrupt
    COUNT.append(config["x"])
    return {"square": config["x"] ** 2.0}


SQUARES = Study(
    "squares",
    "Squares",
    "They are what they are.",
    dual_kernel.draw,
    lambda runs: [{"x": run["config"]["x"], "name": "a" * run["config"]["x"], "square": run["square"]} for run in runs],
    lambda full: [{"x": x} for x in range(5 if full else 3)],
    counting,
)


def test_a_study_goes_on_after_a_kill(tmp_path, capsys):
    out, arguments = tmp_path / "squares.json", ["--out", str(tmp_path / "squares.json")]
    COUNT.clear()
    with pytest.raises(KeyboardInterrupt):
        study.run_study(SQUARES, arguments, "prog")
    COUNT.clear()
    study.run_study(SQUARES, arguments, "prog")
    assert COUNT == [2]
    found = capsys.readouterr()
    assert "already: 2 of 3 runs" in found.err
    assert "1 of 1 done: x 2" in found.err
    assert found.out.splitlines()[3:] == ["x  name  square", "0             0", "1  a          1", "2  aa         4"]
    whole = out.read_text()
    out.write_text(whole.replace('"square"', '"cube"'))  # written by others
    with pytest.raises(
        ValueError, match=r"One of 3 runs of squares in the files with the digest \w{12}\.\.\., .* has not all"
    ):
        study.run_study(SQUARES, arguments, "prog")
    out.write_text(whole)
    COUNT.clear()
    study.run_study(SQUARES, [*arguments, "--full", "--json"], "prog")
    assert COUNT == [3, 4]
    runs = json.loads(capsys.readouterr().out)
    assert [run["square"] for run in runs] == [0, 1, 4, 9, 16]
    assert json.loads(out.read_text())["runs"] == runs
    assert {"device", "versions", "cores"} <= set(runs[0])
    assert runs[0]["versions"]["widelimit"].startswith(wl.__version__)  # and the commit, in a clone


def test_values_of_tables_are_spoken_alike():
    values = 16384, 10612.3, 999.5, 1.2e17, 4.4e-16, "12 of 20"
    assert [study.cell(value) for value in values] == ["16,384", "10,612", "999.5", "1.2e+17", "4.4e-16", "12 of 20"]


def test_a_study_of_images(tmp_path, monkeypatch, capsys):
    pixels, labels = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3), np.zeros(2, int)
    seen = []

    def brightness(config, data):
        seen.append(config["x"])
        return {"square": float(data.x_train.mean())}

    compared = replace(SQUARES, compute=brightness, of_images=True)
    for x, expected in ((pixels, [0, 1, 2]), (pixels, []), (pixels + 1, [0, 1, 2])):  # other images are other runs
        monkeypatch.setattr(study, "cifar10", lambda folder, download, x=x: Images(x, labels, x, labels, ("a",)))
        seen.clear()
        study.run_study(compared, ["--data", "a", "--out", str(tmp_path / "a.json"), "--json"], "prog")
        assert seen == expected
        assert [run["square"] for run in json.loads(capsys.readouterr().out)] == [x.mean()] * 3


def test_a_study_with_an_option(tmp_path, capsys):
    powers = replace(
        SQUARES, compute=lambda config: {"square": config["x"] ** config.get("power", 2.0)}, options={"power": "p"}
    )
    for given, expected in (
        ([], [0, 1, 4]),
        (["--power", "3"], [0, 1, 8]),
    ):  # other settings are other runs of one file
        study.run_study(powers, ["--out", str(tmp_path / "a.json"), "--json", *given], "prog")
        assert [run["square"] for run in json.loads(capsys.readouterr().out)] == expected
    with pytest.raises(ValueError, match="--power is a whole number of 1 or more, not 0"):
        study.run_study(powers, ["--out", str(tmp_path / "a.json"), "--power", "0"], "prog")


@pytest.mark.parametrize("arguments", [["--plot", "a.txt"], ["--out", "none/a.json"], ["--plot", "none/a.png"]])
def test_bad_paths_are_refused_before_any_work(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    COUNT.clear()
    with pytest.raises((ValueError, OSError), match=r"folder|ends with"):
        study.run_study(SQUARES, arguments, "prog")
    assert COUNT == []


def test_every_experiment_is_a_command():
    for name in experiments.EXPERIMENTS:
        found = CliRunner().invoke(app, ["reproduce", name, "--help"])
        assert found.exit_code == 0
        assert f"widelimit reproduce {name}" in found.stdout
    with pytest.raises(SystemExit, match=r"Error: .*ends with"):
        experiments.main("dual-kernel", ["--plot", "a.txt"], "prog")


NORMS, COSINES = np.array([0.7, 1.0, 1.4]), np.array([[1, 0.3, -0.8], [0.3, 1, 0.1], [-0.8, 0.1, 1]])


def test_the_papers_series_is_the_dual_of_a_polynomial():
    act = wl.Gelu()
    own = np.asarray(act.radial(np.ones(1), 5))[0]
    powers = hermite_e.herme2poly(own / np.sqrt([1, 1, 2, 6, 24, 120]))
    expected = wl.dual(wl.Polynomial(powers), NORMS[:, None], NORMS, COSINES)
    np.testing.assert_allclose(dual_kernel.by_series("fixed", act, NORMS, COSINES, 5), expected, rtol=1e-10)


@pytest.mark.parametrize("act", [wl.Relu(), wl.Sin(), wl.Gaussian()])
def test_series_of_each_radius(act):
    r, exact = np.asarray(act.radial(NORMS, 4)), np.asarray(wl.dual(act, NORMS[:, None], NORMS, COSINES))
    expected = sum(np.outer(r[:, l], r[:, l]) * COSINES**l for l in range(5))
    np.testing.assert_allclose(dual_kernel.by_series("adaptive", act, NORMS, COSINES, 4), expected, rtol=1e-12)
    compensated = dual_kernel.by_series("compensated", act, NORMS, COSINES, 4)
    np.testing.assert_allclose(np.diag(compensated), np.diag(exact), rtol=1e-12)
    assert np.abs(compensated - exact).max() < np.abs(expected - exact).max()


def test_dual_kernels_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(dual_kernel, "DEGREES", (1, 8, 20))
    monkeypatch.setattr(dual_kernel, "SAMPLES", (16, 1024))
    monkeypatch.setattr(dual_kernel, "ACTIVATIONS", ("relu", "sin"))
    runs = []
    for config in dual_kernel.settings(False)[::3]:
        runs.append({"config": config, **dual_kernel.compute(config | {"rows": 30})})
    rows = {(row["activation"], row["norms"]): row for row in dual_kernel.table(runs)}
    near, far = rows["relu", "near 1"], rows["relu", "0.3 to 3"]
    assert near["adaptive, degree 20"] < near["adaptive, degree 8"] / 3 < 1e-3
    assert near["compensated, degree 20"] < 1e-9
    assert far["fixed, degree 20"] > 1e3 > 1e-3 > far["adaptive, degree 20"]
    assert rows["sin", "near 1"]["adaptive, degree 20"] < 1e-14
    mixed = runs + [run | {"config": run["config"] | {"rows": 31}} for run in runs[:1]]  # another size stands by itself
    assert [(row["inputs"], row["trials"]) for row in dual_kernel.table(mixed)].count((31, 1)) == 1
    assert len(dual_kernel.table(mixed)) == len(rows) + 1
    errors = [run["samples"]["errors"] for run in runs]
    assert np.all(np.array(errors)[:, 1] < np.array(errors)[:, 0])
    path = tmp_path / "a.svg"
    study.save_figure(dual_kernel.STUDY, runs, path)
    assert "compensated" in path.read_text()


def test_quadrature_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(quadrature, "NODES", (4, 16, 64))
    runs = []
    for config, shape in zip(quadrature.settings(False)[1::5], ([5], [4, 4, 1]), strict=False):
        small = config | {"inputs": 3, "shape": shape}
        runs.append({"config": small, **quadrature.compute(small)})
    rows = {(row["network"], row["activation"]): row for row in quadrature.table(runs)}
    deep, kinked = rows["Myrtle-5", "relu"], rows["one hidden layer", "abs"]
    assert 0.3 < kinked["Gauss-Hermite, q = 64"] / kinked["Gauss-Hermite, q = 16"] * 4 < 3  # as 1 / nodes
    assert deep["Gauss-Hermite, q = 64"] < deep["Gauss-Hermite, q = 4"] / 4
    assert max(kinked["ours, q = 64"], deep["ours, q = 64"], kinked["ours, chosen"], deep["ours, chosen"]) < 1e-13
    assert 1e-6 < deep["ours, q = 16"] < deep["ours, q = 4"]
    study.save_figure(quadrature.STUDY, runs, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1e4
    larger = runs[1] | {"config": runs[1]["config"] | {"inputs": 4}}
    study.save_figure(quadrature.STUDY, [*runs, larger], tmp_path / "a.svg")
    assert "4 of 4 x 4 x 1" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("act", [wl.Sin(), wl.Gelu()])
def test_nodes_and_degrees_of_smooth_activations(act):
    exact = wl.dual(act, NORMS[:, None], NORMS, COSINES)
    for rule in (quadrature.square_of_nodes, quadrature.series_of_degree):
        found = wl.dual(quadrature.by_rule(partial(rule, act.fn, 64)), NORMS[:, None], NORMS, COSINES)
        np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_a_report_has_every_experiment(tmp_path):
    found = {"device": "cpu", "cores": 2, "versions": {"widelimit": "0"}}
    small = quadrature.settings(False)[0] | {"inputs": 3, "shape": [5], "nodes": [4, 16, 64]}
    runs = [{"experiment": "quadrature", "digest": "a", "config": small, **quadrature.compute(small), **found}]
    files = [tmp_path / "q.json", Path(__file__).parents[2] / "benchmarks" / "results" / "cifar10-h200.json"]
    for run in runs:
        add_run(files[0], run)
    out = tmp_path / "report.html"
    assert CliRunner().invoke(app, ["report", *map(str, files), "--out", str(out)]).exit_code == 0
    text = out.read_text()
    assert text.count("<svg") == 2
    assert "NVIDIA H200, 16 cores" in text
    assert "80.76" in text
    assert "1 runs on cpu, 2 cores" in text
    both = page({"quadrature": [runs[0], runs[0] | {"device": "gpu", "digest": "b"}]})  # two devices are not mixed
    assert both.count("<svg") == both.count("<h3>On ") == 2
    assert "<h3>" not in text
    add_run(files[0], runs[0] | {"experiment": "unknown", "digest": "b"})
    twice = CliRunner().invoke(app, ["report", str(files[0]), str(files[0]), "--out", str(out)])
    assert "1 runs of quadrature, and left out 1 of unknown, which has no section" in twice.stdout
    add_run(files[0], {name: value for name, value in runs[0].items() if name != quadrature.OURS})
    other = tmp_path / "other.json"
    add_run(other, runs[0] | {"digest": "c"})
    assert len(gather([files[0], other, other])[0]["quadrature"]) == 2  # every run once, in whatever files it is
    before = files[0].read_bytes()
    for wrong, message in (
        (["none.json"], "is no file"),
        ([str(files[0]), "--out", str(files[0])], "ends with .html"),
        (
            [str(files[0]), "--out", str(out)],
            "of quadrature in the files with the digest a... has not all that it should have (KeyError('ours'))",
        ),
        ([str(files[1]), "--out", str(tmp_path)], "ends with .html"),
        ([str(files[1]), "--out", str(tmp_path / "none" / "a.html")], "does not exist. Make it first"),
    ):
        refused = CliRunner().invoke(app, ["report", *wrong])
        assert refused.exit_code == 1
        assert message in " ".join(refused.stderr.split())
    assert files[0].read_bytes() == before


def test_files_are_written_where_links_lead_and_not_over_pipes(tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    target.write_text("old")
    link.symlink_to(target)
    with atomic_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    lost = tmp_path / "lost"
    lost.symlink_to(tmp_path / "none" / "target")
    with pytest.raises(FileNotFoundError, match="Make it first"):
        check_writable(lost)
    lost.unlink()
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is a device or a pipe"), atomic_file(pipe):
        pass
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "target"]


def test_samples_have_the_kernel_as_their_mean():
    x, act = np.random.default_rng(0).normal(size=(3, 4)), wl.Relu()
    norms = np.linalg.norm(x, axis=1)
    exact = np.asarray(wl.dual(act, norms[:, None], norms, x @ x.T / np.outer(norms, norms)))
    draws = np.stack([dual_kernel.by_samples(act, x, np.random.default_rng(seed), 256) for seed in range(64)])
    deviation = draws.std(0, ddof=1) / 8
    assert np.all(abs(draws.mean(0) - exact) < 5 * deviation)
    assert draws.dtype == np.float64
    assert not jax.config.jax_enable_x64


@pytest.fixture(scope="module")
def cifar(tmp_path_factory):
    """CIFAR-10 where $CIFAR10 names its folder; else such a folder of images that are brighter in one place for every class."""
    if real := os.environ.get("CIFAR10"):
        return Path(real)
    folder, rng = tmp_path_factory.mktemp("cifar"), np.random.default_rng(0)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        count = 2000 if name == "test_batch" else 1000
        labels = rng.integers(0, 10, count)
        pixels = rng.integers(0, 200, (count, 3, 32, 32))
        for image, label in zip(pixels, labels, strict=True):
            image[:, 3 * label : 3 * label + 4, 10:20] += 55
        rows = pixels.astype(np.uint8).reshape(count, -1)
        (folder / name).write_bytes(pickle.dumps({b"data": rows, b"labels": labels.tolist()}))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"%d" % i for i in range(10)]}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_every_command_at_the_size_of_minutes(name, cifar, tmp_path):
    own = experiments.load_study(name)
    arguments = ["--data", str(cifar)] if own.of_images else []
    command = [Path(sys.executable).with_name("widelimit"), "reproduce", name, *arguments, "--plot", "a.png"]

    compiled_as_users_are = {**os.environ, "XLA_FLAGS": ""}

    def run():
        return subprocess.run(
            command, cwd=tmp_path, env=compiled_as_users_are, capture_output=True, text=True, check=True
        )

    first = run()
    runs = read_runs(tmp_path / f"{name}.json")
    assert runs
    assert {run["experiment"] for run in runs} == {name}
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    again = run()
    assert f"already: {len(runs)} of {len(runs)} runs" in again.stderr
    assert again.stdout == first.stdout
    assert f">{escape(own.title)}</h2>" in page(gather([tmp_path / f"{name}.json"])[0])
