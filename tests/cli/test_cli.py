"""The command line: what it prints, what it writes, and how it fails."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

import widelimit as wl
from helpers import damaged
from widelimit.cli import app, common
from widelimit.estimators import load

pytestmark = pytest.mark.xdist_group("estimators")
SMALL = ["--depth", "1", "--holdout", "0", "--json"]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setattr(common, "_keep_programs", lambda: None)


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    frame = load_iris(as_frame=True).frame
    frame["species"] = np.array(["setosa", "versicolor", "virginica"])[frame.pop("target")]
    frame = frame.sample(frac=1, random_state=0)
    path = tmp_path_factory.mktemp("iris") / "iris.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(iris):
    path = iris.with_name("iris.npz")
    run("fit", iris, "--target", "species", "-o", path, *SMALL)
    return path


def run(*arguments, code=0):
    """A command's result, its output as JSON where it is that."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    if "--json" in arguments and code == 0:
        return json.loads(result.stdout)
    return result


def left_in(folder, *but):
    return sorted(file.name for file in folder.iterdir() if file.name not in but)


def test_fit_and_predict(iris, tmp_path):
    path = tmp_path / "model.npz"
    said = run("fit", iris, "--target", "species", "-o", path, "--depth", "1", "--json")
    assert said["task"] == "classify"
    assert said["classes"] == ["setosa", "versicolor", "virginica"]
    assert said["held_out_score"] > 0.9
    assert said["estimator"] == "NeuralKernelClassifier"
    found = run("predict", path, iris, "--proba", "--score", "-o", tmp_path / "p.csv", "--json")
    assert found["score"] > 0.95
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["prediction", "p_setosa", "p_versicolor", "p_virginica"]
    np.testing.assert_allclose(table.iloc[:, 1:].sum(axis=1), 1)
    expected = load(path).predict(pd.read_csv(iris).drop(columns="species").to_numpy())
    assert list(table["prediction"]) == list(expected)
    assert left_in(tmp_path) == ["model.npz", "p.csv"]


def test_columns_are_found_by_name(iris, model, tmp_path):
    frame = pd.read_csv(iris)
    straight = run("predict", model, iris).stdout
    frame[frame.columns[::-1]].assign(more=1.0).to_csv(tmp_path / "turned.csv", index=False)
    assert run("predict", model, tmp_path / "turned.csv").stdout == straight
    frame.drop(columns=frame.columns[0]).to_csv(tmp_path / "less.csv", index=False)
    assert "has no column 'sepal length (cm)'" in run("predict", model, tmp_path / "less.csv", code=1).stderr


def test_regression_by_features_and_arrays(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    np.savez(tmp_path / "data.npz", x=x, y=x[:, 0] ** 2)
    path = tmp_path / "model.npz"
    options = ["--method", "sketched", "--components", "64", "--no-standardize"]
    said = run("fit", tmp_path / "data.npz", "--target", "y", "-o", path, *options, *SMALL)
    assert (said["task"], said["estimator"]) == ("regress", "SketchedRidgeRegressor")
    found = run("predict", path, tmp_path / "data.npz", "--json")
    np.testing.assert_allclose(found["prediction"], load(path).predict(x))
    assert "--proba is for classifiers" in run("predict", path, tmp_path / "data.npz", "--proba", code=1).stderr
    assert "--std is for exact" in run("predict", path, tmp_path / "data.npz", "--std", code=1).stderr
    again = run("fit", tmp_path / "data.npz", "--target", "y", "-o", path, *options, *SMALL, "--force")
    assert again["penalty"] == said["penalty"]  # the same seed


def test_deviations(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 5)), columns=list("abcdy"))
    frame.to_parquet(tmp_path / "data.parquet")
    said = run("fit", tmp_path / "data.parquet", "--target", "y", "-o", tmp_path / "m.npz", *SMALL)
    run("predict", tmp_path / "m.npz", tmp_path / "data.parquet", "--std", "-o", tmp_path / "p.parquet")
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert list(table.columns) == ["prediction", "std"]
    x, y = frame[list("abcd")].to_numpy(), frame["y"] - frame["y"].mean()
    K = wl.nets.fully_connected(1, "gelu", 1.0, 0.5).kernel((x - x.mean(0)) / x.std(0), get="ntk")
    inverse = np.linalg.inv(K + said["penalty"] * np.eye(120))
    scale = y @ inverse @ y / 120  # of the likeliest Gaussian process with this kernel
    variance = scale * (np.diag(K) - np.diag(K @ inverse @ K) + said["penalty"])  # of the function, and of the noise
    np.testing.assert_allclose(table["std"], np.sqrt(variance), rtol=1e-6)
    np.testing.assert_allclose(table["prediction"], K @ inverse @ y + frame["y"].mean(), atol=1e-6)


@pytest.mark.parametrize(
    ("counts", "held_out", "of_the_first"),
    [((60, 40), 20, 12), ((8, 4, 4, 4), 4, 1), ((18, 2), 4, 4), ((12, 7, 1), 4, None), ((9, 2, 2, 2), 3, None)],
)
def test_classes_are_held_out_by_their_shares(tmp_path, counts, held_out, of_the_first):
    """Where each has two rows, and one of each is held out at least. All rows are alike, so that the first class is told."""
    y = np.repeat([f"kind {i}" for i in range(len(counts))], counts)
    np.savez(tmp_path / "data.npz", x=np.ones((len(y), 2)), y=y)
    scores = []
    for seed in range(6):
        options = ["--seed", seed, "--depth", "1", "--penalty", "1", "--json", "--force"]
        said = run("fit", tmp_path / "data.npz", "-o", tmp_path / "m.npz", *options)
        assert said["held_out_rows"] == held_out
        scores.append(round(said["held_out_score"] * held_out))
    assert set(scores) == {of_the_first} if of_the_first is not None else len(set(scores)) > 1


def test_features_and_their_map(iris, tmp_path):
    out = tmp_path / "f.npy"
    options = ["--target", "species", "--components", "64", "--depth", "1"]
    run("features", iris, "-o", out, "--save", tmp_path / "map.npz", *options, "--json")
    first = np.load(out)
    assert first.shape == (150, 64)
    run("features", iris, "-o", out, "--model", tmp_path / "map.npz", "--target", "species", "--force")
    np.testing.assert_array_equal(np.load(out), first)
    frame = pd.read_csv(iris)
    frame[frame.columns[::-1]].to_csv(tmp_path / "turned.csv", index=False)
    run("features", tmp_path / "turned.csv", "-o", out, "--model", tmp_path / "map.npz", "--force")
    np.testing.assert_array_equal(np.load(out), first)
    (tmp_path / "turned.csv").unlink()
    assert left_in(tmp_path) == ["f.npy", "map.npz"]


def test_kernel(iris, tmp_path):
    run("kernel", iris, "--target", "species", "-o", tmp_path / "K.npy", "--depth", "1", "--kernel", "nngp")
    x = pd.read_csv(iris).drop(columns="species").to_numpy()
    expected = wl.nets.fully_connected(1, "gelu", 1.0, 0.5).kernel(x, get="nngp")
    np.testing.assert_allclose(np.load(tmp_path / "K.npy"), expected, rtol=1e-12)
    np.save(tmp_path / "x.npy", x[:5])
    run("kernel", tmp_path / "x.npy", tmp_path / "x.npy", "-o", tmp_path / "cross.npy", "--depth", "1")
    assert np.load(tmp_path / "cross.npy").shape == (5, 5)
    run("kernel", tmp_path / "x.npy", "-o", tmp_path / "images.npy", "--depth", "1", "--image-shape", "2,2,1")
    np.testing.assert_allclose(np.load(tmp_path / "images.npy"), np.load(tmp_path / "cross.npy"), rtol=1e-12)


def test_activations(tmp_path):
    said = run("activations", "relu", "gelu", "--plot", tmp_path / "a.png", "--json")
    np.testing.assert_allclose(said["activations"]["relu"]["dual"][2], 1 / (2 * np.pi))
    np.testing.assert_allclose(said["activations"]["relu"]["spectrum"][:3], [1 / (2 * np.pi), 0.25, 1 / (4 * np.pi)])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "gelu" in run("activations", "gelu").stdout
    assert len(said["activations"]["relu"]["spectrum"]) == 9  # degrees 0 to 8
    assert said["std"] == 1
    assert "Did you mean 'relu'" in run("activations", "rleu", code=1).stderr


def test_info(iris, model):
    assert run("info", "--json")["widelimit"] == wl.__version__
    said = run("info", model, "--json")
    assert said["estimator"] == "StandardScaler > NeuralKernelClassifier"
    assert said["names"][0] == "sepal length (cm)"
    assert run("info", iris, "--json")["columns"]["species"] == "text"
    assert run("--version").stdout.strip() == wl.__version__


def test_bundled_sets(tmp_path):
    said = run("fit", "bundled:iris", "-o", tmp_path / "m.npz", *SMALL)
    assert said["classes"] == ["setosa", "versicolor", "virginica"]
    assert run("predict", tmp_path / "m.npz", "bundled:iris", "--score", "--json")["score"] > 0.95
    assert run("fit", "bundled:iris", "--drop", "sepal length (cm)", "-o", tmp_path / "n.npz", *SMALL)["columns"] == 3


BAD = {
    "no target": (["fit", "IRIS"], "with --target"),
    "bundled": (["fit", "bundled:isir"], "iris"),
    "target": (["fit", "IRIS", "--target", "kind"], "has no column 'kind'"),
    "file": (["fit", "nothing.csv", "--target", "y"], "nothing.csv"),
    "suffix": (["fit", "IRIS", "--target", "species", "-o", "model.pkl"], "ends with .npz"),
    "folder": (["fit", "IRIS", "--target", "species", "-o", "no/model.npz"], "does not exist"),
    "exists": (["fit", "IRIS", "--target", "species", "-o", "IRIS.npz"], "--force"),
    "task": (["fit", "IRIS", "--target", "species", "--task", "rank"], "--task is one of"),
    "text to regress": (["fit", "IRIS", "--target", "species", "--task", "regress"], "convert"),
    "penalty": (["fit", "IRIS", "--target", "species", "--penalty", "x"], "--penalty is a number"),
    "holdout": (["fit", "IRIS", "--target", "species", "--holdout", "1"], "--holdout is a share"),
    "shape": (["fit", "IRIS", "--target", "species", "--arch", "conv"], "takes images"),
    "arch": (["fit", "IRIS", "--target", "species", "--arch", "mirtle5"], "--arch is one of"),
    "missing model": (["predict", "nothing.npz", "IRIS"], "is no file"),
    "image shape": (["fit", "IRIS", "--target", "species", "--image-shape", "2x2"], "--image-shape is height"),
    "no model": (["predict", "IRIS", "IRIS"], "no model that can be read"),
    "drop": (["predict", "IRIS.npz", "IRIS", "--drop", "species"], "--drop has no use here"),
    "drop of bundled": (["fit", "bundled:iris", "--drop", "petals"], "to drop"),
    "output": (["predict", "IRIS.npz", "IRIS", "-o", "p.txt"], "ends with .csv"),
    "memory": (["kernel", "IRIS", "--target", "species", "-o", "K.npy", "--memory", "lots"], "a number of bytes"),
    "std": (["activations", "relu", "--std", "0"], "--std is a number"),
    "degree": (["activations", "relu", "--degree", "99"], "--degree is a whole number"),
    "plot": (["activations", "relu", "--plot", "a.txt"], "ends with .png"),
    "info": (["info", "nothing"], "does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case, iris, model, tmp_path, monkeypatch):
    """One line on standard error, exit code 1, and nothing left behind."""
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]
    result = run(*(a.replace("IRIS.npz", str(model)).replace("IRIS", str(iris)) for a in arguments), code=1)
    assert message in result.stderr.replace("\n", " ")
    assert result.stdout == ""
    assert left_in(tmp_path) == []


def test_wrong_options_are_two():
    run("fit", code=2)
    run("predict", "a.csv", code=2)
    run("fit", "a.csv", "--target", "y", "--depth", "deep", code=2)
    run("nothing", code=2)


def test_interruption_leaves_nothing(iris, tmp_path, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("widelimit.estimators.NeuralFeatures.transformed_blocks", interrupted)
    run(
        "features",
        iris,
        "-o",
        tmp_path / "f.npy",
        "--target",
        "species",
        "--components",
        "64",
        "--depth",
        "1",
        code=130,
    )
    assert left_in(tmp_path) == []


def test_five_hundred_damaged_tables(iris, model, tmp_path, monkeypatch):
    """Predictions of damaged CSV and NPY files: whole, or one line of an error; never a traceback."""
    x = pd.read_csv(iris).iloc[:20]
    x.to_csv(tmp_path / "good.csv", index=False)
    np.save(tmp_path / "good.npy", x.drop(columns="species").to_numpy())
    fitted = load(model, with_about=True)
    monkeypatch.setattr("widelimit.estimators.load", lambda *_args, **_options: fitted)  # read once
    rng, codes = np.random.default_rng(0), []
    for i in range(500):
        suffix = ".csv" if i % 2 else ".npy"
        bad, out = tmp_path / f"bad{suffix}", tmp_path / "out.csv"
        bad.write_bytes(damaged((tmp_path / f"good{suffix}").read_bytes(), rng))
        result = CliRunner().invoke(app, ["predict", str(model), str(bad), "-o", str(out), "--force"])
        codes.append(result.exit_code)
        assert result.exit_code in (0, 1), (result.exception, result.output)
        assert (result.exit_code == 0) == out.exists()
        if result.exit_code:
            assert result.stderr.startswith("Error: ")
        out.unlink(missing_ok=True)
    assert np.count_nonzero(codes) > 100
    assert left_in(tmp_path) == ["bad.csv", "bad.npy", "good.csv", "good.npy"]


def test_the_command_itself(tmp_path):
    """As a program: compiled programs are kept in the user's cache."""
    command = [sys.executable, "-m", "widelimit", "info", "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert json.loads(done.stdout)["compiled_programs"] == str(tmp_path / "widelimit")


def test_an_interrupt_from_outside(tmp_path):
    """Ctrl-C while features are computed: the exit code says so, and nothing is left."""
    np.save(tmp_path / "x.npy", np.zeros((200_000, 4), np.float32))
    options = ["features", "x.npy", "-o", "f.npy", "--components", "64", "--depth", "1"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "widelimit", *options], cwd=tmp_path, stderr=subprocess.PIPE, env=environment
    )
    while process.poll() is None and not any(name.endswith(".new") for name in left_in(tmp_path)):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert "Interrupted" in process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert left_in(tmp_path, "widelimit") == ["x.npy"]
