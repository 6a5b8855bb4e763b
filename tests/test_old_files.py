"""Files that version 0.1.0 wrote still load and give the numbers that they gave; `make_old_files.py` wrote them."""

import json
import pickle
import shutil
from functools import cache
from math import prod
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from typer.testing import CliRunner

import widelimit as wl
from widelimit import estimators
from widelimit.cli import app

OLD = Path(__file__).parent / "data" / "written_by_0_1"
EXACT = {"float64": 1e-12, "float32": 1e-5}  # of the largest entry: kernels, features, and what is read as it is
SOLVED = {"float64": 1e-8, "float32": 1e-3}  # predictions, which multiply small differences by large coefficients
ROUNDED = 2.0**-6  # of features in bfloat16, which have 8 bits
METHODS = ("predict", "predict_proba", "decision_function", "transform")
ATTRIBUTES = (
    "classes_", "coef_", "dual_coef_", "feature_names_in_", "intercept_", "mean_", "n_features_in_", "penalties_",
    "penalty_", "scale_", "scores_",
)  # fmt: skip
IRIS = "bundled:iris"


# What is not in the files, and must be there before they load.


def bump(t):
    """A function with two kinks."""
    return jnp.where(jnp.abs(t - 0.5) < 1, (1 - (t - 0.5) ** 2) * t, 0.0)


def soft_dual(cov, var1, var2):
    """The dual of erf."""
    root = jnp.sqrt(1 + 2 * var1 + 2 * var2 + 4 * jnp.maximum(var1 * var2 - cov**2, 0))
    return 2 / jnp.pi * jnp.arctan2(2 * cov, root)


def register():
    """Give the functions of the files their names."""
    wl.register("old bump", wl.Elementwise(bump, kinks=(-0.5, 1.5)))
    wl.register("old soft", wl.FromDual(soft_dual))


# What the files give, asked for in the same way when they were written.


def readings_of_map(phi, x):
    """The features of x, by kernel; of `Exact`, which are known up to a rotation, their products."""
    found = phi(x)
    named = found._asdict() if isinstance(found, tuple) else {"phi": found}
    wide = {name: np.asarray(value, np.float32 if value.dtype == jnp.bfloat16 else value.dtype) for name, value in
            named.items()}  # fmt: skip
    if isinstance(phi.sketch, wl.sketch.Exact):
        return {name: value @ value.T for name, value in wide.items()}
    return wide


def readings_of_model(model, x):
    """What a fitted estimator says of x, and what it has learned."""
    x = (
        pd.DataFrame(x, columns=[f"column {i}" for i in range(x.shape[1])])
        if hasattr(model, "feature_names_in_")
        else x
    )
    found = {name: getattr(model, name)(x) for name in METHODS if hasattr(model, name)}
    if isinstance(model, estimators.NeuralKernelRegressor):
        found["std"] = model.predict(x, return_std=True)[1]
    last = model[-1] if hasattr(model, "steps") else model
    found |= {name: getattr(last, name) for name in ATTRIBUTES if hasattr(last, name)}
    if isinstance(found.get("classes_"), list):
        found["classes_"] = found["classes_"][0]
    found = {name: np.asarray(value) for name, value in found.items()}
    return {name: value.astype(str) if value.dtype == object else value for name, value in found.items()}


def readings_of_process(x, y):
    """A Gaussian process of scikit-learn with our kernel, which is no model of ours and goes into no file."""
    kernel = estimators.NeuralKernel("relu", depth=2, W_std=1.3, b_std=0.4)
    process = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(x[:-3], y[:-3])
    mean, std = process.predict(x[-3:], return_std=True)
    value, gradient = kernel(x, eval_gradient=True)
    return {"mean": mean, "std": std, "kernel": value, "gradient": gradient, "diagonal": kernel.diag(x)}


def all_activations(described):
    """One network with every activation side by side, made of the JSON of each."""
    networks = [wl.from_json(json.dumps(data)) for data in described]
    return wl.serial(wl.FanOut(len(networks)), wl.parallel(*networks), wl.FanInSum())


def cifar_folder(folder):
    """CIFAR-10 in the form of its files, with 20 made-up images in each."""
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (20, 3072)).astype(np.uint8)
        labels = [int(label) for label in rng.integers(0, 10, 20)]
        (folder / name).write_bytes(pickle.dumps({b"data": rows, b"labels": labels}, protocol=4))
    names = [f"{i}".encode() for i in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=4))
    return folder


REPRODUCED = {
    "speedup": [],
    "cifar10": [
        "--features",
        "8",
        "16",
        "--train",
        "40",
        "--test",
        "20",
        "--held-out",
        "10",
        "--penalties",
        "0.1",
        "1",
    ],
}  # with the arguments of which the files are
MATRIX = wl.nets.fully_connected(2, "relu", 1.2, 0.3)


def run(*arguments):
    """A command of `widelimit`, which must end well."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


# The comparison.


@cache
def numbers():
    """The inputs and outputs that were written, by place in the folder."""
    with np.load(OLD / "numbers.npz") as file:
        arrays = {name: file[name] for name in file.files}
    places = json.loads(str(arrays["index"])).items()
    return {name: arrays[kind][at : at + prod(shape)].reshape(shape) for name, (kind, at, shape) in places}


def of(case):
    """Those of one case."""
    return {name.removeprefix(f"{case}/"): value for name, value in numbers().items() if name.startswith(f"{case}/")}


def cases(kind):
    """The names of the files of a kind."""
    return sorted(path.stem for path in (OLD / kind).glob("*.npz"))


def check(found, case, tolerances, limit=None):
    """Every reading is there, of the same type, and as it was."""
    then = of(case)
    assert set(found) == set(then), case
    for name, old in then.items():
        new = found[name]
        assert (new.shape, new.dtype.kind) == (old.shape, old.dtype.kind), f"{case}/{name}"
        if old.dtype.kind in "OUSib":
            np.testing.assert_array_equal(new, old, f"{case}/{name}")
            continue
        assert new.dtype == old.dtype, f"{case}/{name}"
        allowed = (tolerances[str(old.dtype)] if limit is None else limit) * np.abs(old[np.isfinite(old)]).max(
            initial=0
        )
        np.testing.assert_allclose(new, old, rtol=0, atol=allowed, err_msg=f"{case}/{name}")


@pytest.fixture(scope="module", autouse=True)
def _registered():
    register()


@pytest.fixture(autouse=True)
def _no_program_folder(monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir or "")
    monkeypatch.setattr("widelimit.cli.common._keep_programs", lambda: None)


# Feature maps.


@pytest.mark.parametrize("name", cases("features"))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_feature_maps(name, dtype, tmp_path):
    phi = wl.load_features(OLD / "features" / f"{name}.npz")
    x = numbers()[f"inputs/{'images' if len(phi.input_shape) == 3 else 'rows'}"].astype(dtype)
    rounded = ROUNDED if phi.dtype == "bfloat16" else None
    check(readings_of_map(phi, x), f"features/{name}/{dtype}", EXACT, rounded)
    phi.save(tmp_path / "again.npz")
    again = wl.load_features(tmp_path / "again.npz")
    assert repr(again.net) == repr(phi.net)
    np.testing.assert_equal(readings_of_map(again, x), readings_of_map(phi, x))


# Models.


@pytest.mark.parametrize("name", cases("models"))
def test_models(name, tmp_path):
    model, about = estimators.load(OLD / "models" / f"{name}.npz", with_about=True)
    assert about == {"name": name}
    x = numbers()[f"inputs of models/{name}"]
    check(readings_of_model(model, x), f"models/{name}", SOLVED)
    estimators.save(model, tmp_path / "again.npz", about=about)
    again = readings_of_model(estimators.load(tmp_path / "again.npz"), x)
    for key, value in readings_of_model(model, x).items():
        np.testing.assert_array_equal(again[key], value, key)


@pytest.mark.parametrize("name", [name for name in cases("models") if name.endswith("resumable")])
def test_models_that_learn_more(name):
    model = estimators.load(OLD / "models" / f"{name}.npz")
    x, more, targets = (numbers()[f"{part}/{name}"] for part in ("inputs of models", "further rows", "further targets"))
    check(readings_of_model(model.partial_fit(more, targets), x), f"after more/{name}", SOLVED)


def test_models_whose_rows_were_not_saved_say_so():
    model = estimators.load(OLD / "models" / "classifier of sums.npz")
    x = numbers()["inputs of models/classifier of sums"]
    with pytest.raises(ValueError, match="resumable=True"):
        model.partial_fit(x, model.predict(x))


def test_gaussian_process_of_scikit_learn():
    x, y = numbers()["inputs/rows"], np.sin(numbers()["inputs/rows"].sum(1))
    check(readings_of_process(x, y), "process", SOLVED)


def test_what_goes_into_no_file_is_refused(tmp_path):
    x = numbers()["inputs/rows"]
    process = GaussianProcessRegressor(estimators.NeuralKernel("relu"), alpha=0.1, optimizer=None).fit(x, x[:, 0])
    with pytest.raises(TypeError, match="cannot be saved"):
        estimators.save(process, tmp_path / "process.npz")


def test_models_of_the_command(tmp_path):
    run("predict", OLD / "command" / "iris.npz", IRIS, "--proba", "--out", tmp_path / "guesses.csv")
    guesses = pd.read_csv(tmp_path / "guesses.csv")
    found = {"labels": guesses.iloc[:, 0].to_numpy().astype(str), "proba": guesses.iloc[:, 1:].to_numpy()}
    check(found, "command/predict", SOLVED)
    told = json.loads(run("info", OLD / "command" / "iris.npz", "--json").stdout)
    then = json.loads((OLD / "command" / "info.json").read_text())
    assert {key: told[key] for key in then if key != "file"} == {key: then[key] for key in then if key != "file"}


def test_maps_of_the_command(tmp_path):
    made = ["--model", OLD / "command" / "map.npz", "--out", tmp_path / "features.npy"]
    run("features", IRIS, *made)
    check({"features": np.load(tmp_path / "features.npy")}, "command/features", EXACT)


# Networks.


@cache
def networks():
    """The networks that were written, of activations and of layers: their JSON and how they printed, by name."""
    return json.loads((OLD / "networks.json").read_text())


@pytest.mark.parametrize("kind", ["activations", "layers"])
def test_networks_print_as_they_did(kind):
    for name, (data, printed) in networks()[kind].items():
        net = wl.from_json(json.dumps(data))
        assert repr(net) == printed, name
        assert repr(wl.from_json(net.to_json())) == printed, name


def test_kernels_of_activations():
    net = all_activations(networks()["activations"][name][0] for name in networks()["together"])
    found = net.kernel(numbers()["inputs/rows"][:2])
    check(found._asdict(), "networks/activations", EXACT)


@pytest.mark.parametrize("name", networks()["layers"] if (OLD / "networks.json").exists() else [])
def test_kernels_of_layers(name):
    net = wl.from_json(json.dumps(networks()["layers"][name][0]))
    check(net.kernel(numbers()[f"inputs of layers/{name}"])._asdict(), f"networks/layers/{name}", EXACT)


def test_parameters_of_finite_networks():
    """Parameters that users keep go into the same places."""
    net = wl.from_json(json.dumps(networks()["finite"]))
    x, leaves = numbers()["inputs/images"], [value for _, value in sorted(of("finite parameters").items())]
    structure = jax.tree.structure(net.init(jax.random.key(0), x.shape[1:], width=6))
    params = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
    check({"outputs": np.asarray(net.apply(params, x))}, "finite", EXACT)


# A matrix that was interrupted.


@pytest.fixture
def half_finished(tmp_path):
    """A copy of the files, their names and the tiles that are done."""
    for path in (OLD / "matrix").iterdir():
        shutil.copy(path, tmp_path)
    header, *lines = (tmp_path / "nngp.npy.progress").read_text().splitlines()
    done = [tuple(map(int, line.split())) for line in lines]
    return (tmp_path / "nngp.npy", tmp_path / "ntk.npy"), json.loads(header)["sides"], done


def test_a_half_finished_matrix_is_taken_up(half_finished):
    paths, (rows, _), done = half_finished
    x = numbers()["inputs/of the matrix"]
    i, j = next(corner for corner in done if corner[0] != corner[1])
    assert 0 < len(done) < (len(x) / rows) * (len(x) / rows + 1) / 2  # of the tiles on and above the diagonal
    partial = np.load(f"{paths[0]}.partial", mmap_mode="r+")
    partial[i + 1, j + 2] = 12345.0  # would be written over, were the tile computed again
    partial.flush()
    undone = np.load(f"{paths[1]}.partial") == 0
    found, full = MATRIX.kernel(x, out=paths), MATRIX.kernel(x)
    assert undone.any()
    assert found.nngp[i + 1, j + 2] == 12345.0
    assert not any(Path(f"{paths[0]}{suffix}").exists() for suffix in (".partial", ".progress"))
    repaired = np.load(paths[0])
    repaired[i + 1, j + 2] = full.nngp[i + 1, j + 2]
    for new, old in ((repaired, full.nngp), (np.load(paths[1]), full.ntk)):
        np.testing.assert_allclose(new, old, rtol=0, atol=1e-12 * np.abs(old).max())


OTHERS = {
    "inputs": lambda x, paths: MATRIX.kernel(x[::-1], out=paths),
    "network": lambda x, paths: wl.nets.fully_connected(2, "relu", 1.2, 0.31).kernel(x, out=paths),
    "order": lambda x, paths: MATRIX.kernel(x, get=("ntk", "nngp"), out=paths),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_half_finished_matrix_of_another_computation_is_not(what, half_finished):
    with pytest.raises(ValueError, match="another computation"):
        OTHERS[what](numbers()["inputs/of the matrix"], half_finished[0])


# Results of experiments.


@pytest.mark.parametrize("name", REPRODUCED)
def test_runs_of_experiments_are_not_computed_again(name, tmp_path):
    if jax.devices()[0].device_kind != "cpu":
        pytest.skip("the runs are those of a CPU")
    out = tmp_path / f"{name}.json"
    shutil.copy(OLD / "experiments" / out.name, out)
    then = json.loads(out.read_text())["runs"]
    folder = ["--data", cifar_folder(tmp_path)] if name == "cifar10" else []
    done = run("reproduce", name, *folder, *REPRODUCED[name], "--out", out, "--json")
    assert f"already: {len(then)} of {len(then)} runs" in done.stderr
    assert json.loads(done.stdout) == then
    run("report", out, "--out", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000
