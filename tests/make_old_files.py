"""Writes `data/written_by_0_1/`: files of every kind, and the numbers that they give.

    python tests/make_old_files.py

It was run once, with version 0.1.0, and is kept for the record: files of that version are only worth something while that
version wrote them, so it stops with any other.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import catalogue
import test_old_files as old
import widelimit as wl
from widelimit import estimators

RNG = np.random.default_rng(17)
ROWS, IMAGES = RNG.normal(size=(6, 3)), RNG.normal(size=(3, 4, 4, 1))
MATRIX_ROWS = RNG.normal(size=(40, 5))
COLUMNS = 12
numbers: dict[str, np.ndarray] = {"inputs/rows": ROWS, "inputs/images": IMAGES, "inputs/of the matrix": MATRIX_ROWS}


def note(case, readings):
    for name, value in readings.items():
        numbers[f"{case}/{name}"] = np.asarray(value)


def feature_maps():
    """Kinds of sketches, kernels, numbers of columns and types; by name (network, input, options)."""
    dense, conv = wl.Dense(1.2, 0.3), wl.Conv((3, 3), padding="SAME", W_std=1.3, b_std=0.2)
    fc, pooled = wl.nets.fully_connected, (wl.GlobalAvgPool(), wl.Dense())
    branches = wl.serial(
        dense, wl.residual("relu", dense), wl.FanOut(2),
        wl.parallel(wl.serial(dense, wl.LayerNorm(), "gelu"), wl.serial(dense, "tanh")),
        wl.FanInConcat(), wl.Dense(0.9, width=32), "relu", wl.Dense(0.9, width=8, parameterization="standard"),
    )  # fmt: skip
    stages = wl.serial(conv, "relu", wl.AvgPool((2, 2), (2, 2)), wl.Conv((2, 2)), "gelu", *pooled)
    return {
        "relu": (fc(2, "relu", 1.2, 0.3), {}),
        "gelu of both": (fc(1, "gelu", 1.2, 0.3), {"get": ("nngp", "ntk"), "sketch": "random_weights"}),
        "tanh by powers": (fc(1, "tanh", 1.2, 0.3), {"get": "nngp", "sketch": "powers", "degree": 4}),
        "polysketch": (fc(1, "gelu", 1.2, 0.3), {"sketch": "polysketch", "degree": 3}),
        "cosine": (fc(2, "relu", 1.4), {"sketch": "cosine", "degree": 5}),
        "powers object": (fc(1, "erf", 1.2), {"sketch": wl.sketch.Powers(3, complex_signs=False)}),
        "orders": (fc(1, "gelu", 1.2, 0.3), {"sketch": wl.sketch.RandomWeights(orders=1)}),
        "exact": (fc(1, "relu", 1.2, 0.3), {"sketch": "exact"}),
        "normalised gaussian": (fc(2, "exp_normalized", 1.0, 0.1), {}),
        "registered": (wl.serial(dense, wl.Elementwise(old.bump, kinks=(-0.5, 1.5)), dense), {}),
        "mixed": (wl.serial(wl.FanOut(2), wl.parallel(dense, dense), wl.FanInSum()), {"features": 2}),
        "branches": (branches, {}),
        "bfloat16": (fc(2, "gelu", 1.2, 0.3), {"dtype": "bfloat16"}),
        "float64": (fc(1, "gelu", 1.2, 0.3), {"dtype": "float64"}),
        "images of both": (stages, {"get": ("ntk", "nngp")}),
        "images in bfloat16": (stages, {"dtype": "bfloat16"}),
        "images by powers": (
            wl.serial(wl.Conv((2, 2), (2, 1), "CIRCULAR", 1.3), "relu", wl.Dropout(0.7), wl.Flatten(), wl.Dense()),
            {"sketch": "powers", "degree": 3},
        ),
    }


def write_feature_maps(folder):
    folder.mkdir()
    for i, (name, (net, options)) in enumerate(feature_maps().items()):
        images = name.startswith("images")
        x = IMAGES if images else ROWS
        phi = net.feature_map(jax.random.key(i), x.shape[1:], **{"features": COLUMNS, **options})
        phi.save(folder / f"{name}.npz")
        for dtype in ("float64", "float32"):
            note(f"features/{name}/{dtype}", old.readings_of_map(phi, x.astype(dtype)))


def fitted():
    """Fitted estimators of every kind, by name, with the rows that they are asked of."""
    x, images = RNG.normal(size=(30, 3)), RNG.normal(size=(12, 3, 3, 2))
    smooth = np.sin(x @ RNG.normal(size=3))
    two = np.where(smooth > 0, "yes", "no")
    three = np.digitize(smooth, [-0.4, 0.4])
    several = np.stack([smooth, x[:, 0] ** 2], 1)
    labels = np.stack([smooth > 0, x[:, 0] > 0, x[:, 1] > 0.3], 1).astype(int)
    w = RNG.uniform(0.3, 2.5, size=30)
    exact = {"depth": 1, "activation": "relu", "penalty": 0.1}
    drawn = {**exact, "n_components": COLUMNS, "random_state": 0}
    classifier, regressor = estimators.NeuralKernelClassifier, estimators.NeuralKernelRegressor
    sketched, features = estimators.SketchedRidgeClassifier, estimators.SketchedRidgeRegressor
    own = wl.serial(wl.Dense(1.2, 0.3), wl.Elementwise(old.bump, kinks=(-0.5, 1.5)), wl.Dense())
    table = pd.DataFrame(x, columns=[f"column {i}" for i in range(3)])
    models = {
        "classifier of two": classifier(**exact).fit(x, two),
        "classifier of three": classifier(activation="gelu").fit(x, three, w),
        "classifier of labels": classifier(**exact, kernel="nngp").fit(x, labels),
        "classifier of a network": classifier(net=own, penalty="gcv").fit(x, two),
        "classifier of a table": classifier(**exact).fit(table, two),
        "regressor": regressor(**exact).fit(x, smooth),
        "regressor of several": regressor(activation=wl.ABRelu(-0.1, 1.2), penalty="folds", folds=3).fit(x, several, w),
        "regressor in float32": regressor(**exact, scale_rows=True).fit(x.astype("float32"), smooth.astype("float32")),
        "classifier of sums": sketched(**drawn).fit(x, two),
        "sketched of three resumable": sketched(**drawn).partial_fit(x[:10], three[:10], classes=[0, 1, 2]),
        "sketched of rows resumable": features(**drawn).partial_fit(x[:8], smooth[:8], w[:8]),
        "sketched of sums resumable": features(**drawn).partial_fit(x[:20], smooth[:20], w[:20]),
        "sketched of folds": features(**{**drawn, "penalty": "folds"}, folds=3, kernel="nngp").fit(x, several),
        "features": estimators.NeuralFeatures(depth=1, n_components=COLUMNS, random_state=0).fit(x),
        "pipeline": make_pipeline(StandardScaler(), features(**drawn)).fit(x, smooth),
        "normalizer": estimators.ImageNormalizer().fit(images),
        "normalizer to variance": estimators.ImageNormalizer("variance").fit(images),
        "whitening": estimators.ZCA().fit(images),
        "whitening without centre": estimators.ZCA(0.2, center=False).fit(images),
        "images": make_pipeline(
            estimators.ImageNormalizer(), estimators.ZCA(), classifier("conv", depth=2, activation="erf", penalty=0.1)
        ).fit(images, np.arange(12) % 2),
    }  # fmt: skip
    asked = {name: images[:5] if "images" in name or "whit" in name or "norm" in name else x[10:16] for name in models}
    asked |= {name: asked[name].astype("float32") for name in models if "float32" in name}
    more = {
        "sketched of three resumable": (x[10:], three[10:]),
        "sketched of rows resumable": (x[8:], smooth[8:]),
        "sketched of sums resumable": (x[20:], smooth[20:]),
    }
    return models, asked, more


def write_models(folder):
    folder.mkdir()
    models, asked, more = fitted()
    for name, model in models.items():
        numbers[f"inputs of models/{name}"] = asked[name]
        note(f"models/{name}", old.readings_of_model(model, asked[name]))
        estimators.save(model, folder / f"{name}.npz", resumable=name.endswith("resumable"), about={"name": name})
        if name in more:
            numbers[f"further rows/{name}"], numbers[f"further targets/{name}"] = more[name]
            note(f"after more/{name}", old.readings_of_model(model.partial_fit(*more[name]), asked[name]))
    note("process", old.readings_of_process(ROWS, np.sin(ROWS.sum(1))))


def write_networks(path):
    """Every activation between two layers, and every layer in a small network."""
    named = {**catalogue.ACTIVATIONS, "elementwise": wl.Elementwise(old.bump, kinks=(-0.5, 1.5)),
             "from_dual": wl.FromDual(old.soft_dual)}  # fmt: skip
    activations = {name: wl.serial(wl.Dense(1.2, 0.3), act, wl.Dense()) for name, act in named.items()}
    layers = {name: net for name, (net, _) in catalogue.NETWORKS.items()}
    texts = {kind: {name: [json.loads(net.to_json()), repr(net)] for name, net in nets.items()} for kind, nets in
             (("activations", activations), ("layers", layers))}  # fmt: skip
    together = [name for name in named if name not in catalogue.COMPUTED or name in ("tanh", "elu", "elementwise")]
    both = old.all_activations(texts["activations"][name][0] for name in together)
    note("networks/activations", both.kernel(ROWS[:2])._asdict())
    for name, (net, shape) in catalogue.NETWORKS.items():
        x = numbers[f"inputs of layers/{name}"] = RNG.normal(size=(2, *shape))
        note(f"networks/layers/{name}", net.kernel(x)._asdict())
    conv = wl.Conv((3, 3), padding="SAME", W_std=1.3, b_std=0.2)
    finite = wl.serial(conv, wl.residual("relu", conv), wl.LayerNorm(), "gelu", wl.GlobalAvgPool(), wl.Dense(width=2))
    params = finite.init(jax.random.key(3), IMAGES.shape[1:], width=6)
    note("finite parameters", {f"{i:02}": leaf for i, leaf in enumerate(jax.tree.leaves(params))})
    note("finite", {"outputs": finite.apply(params, IMAGES)})
    path.write_text(json.dumps({**texts, "together": together, "finite": json.loads(finite.to_json())}) + "\n")


def write_matrix(folder):
    """Two kernels whose computation is killed when some tiles are done."""
    folder.mkdir()
    paths = folder / "nngp.npy", folder / "ntk.npy"
    journal = folder / "nngp.npy.progress"
    program = (
        "import sys, numpy as np, test_old_files as old\n"
        "x = np.load(sys.argv[1])\n"
        "old.MATRIX.kernel(x, out=tuple(sys.argv[2:]), memory=sys.stdin.readline().strip())\n"
    )
    with TemporaryDirectory() as inputs:
        np.save(Path(inputs) / "x.npy", MATRIX_ROWS)
        command = [sys.executable, "-c", program, Path(inputs) / "x.npy", *paths]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
            process.stdin.write(f"{os.environ.get('OLD_MEMORY', '20kB')}\n".encode())
            process.stdin.close()
            while process.poll() is None:
                with contextlib.suppress(FileNotFoundError):
                    if journal.read_text().count("\n") > 12:
                        process.send_signal(signal.SIGKILL)
                        break
                time.sleep(0)
    if process.returncode != -signal.SIGKILL:
        sys.exit("The computation ended before it was killed. Run again.")


def write_experiments(folder):
    folder.mkdir()
    results = Path(__file__).parents[1] / "benchmarks" / "results"
    shutil.copy(results / "speedup-cpu.json", folder / "speedup.json")
    with TemporaryDirectory() as images:
        data = old.cifar_folder(Path(images))
        old.run("reproduce", "cifar10", "--data", data, *old.REPRODUCED["cifar10"], "--out", folder / "cifar10.json")


def write_command(folder):
    folder.mkdir()
    drawn = ["--components", "16", "--depth", "1", "--seed", "3"]
    old.run("fit", old.IRIS, "--method", "sketched", *drawn, "--out", folder / "iris.npz")
    (folder / "info.json").write_text(old.run("info", folder / "iris.npz", "--json").stdout)
    with TemporaryDirectory() as made:
        guesses, features = Path(made) / "guesses.csv", Path(made) / "features.npy"
        old.run("predict", folder / "iris.npz", old.IRIS, "--proba", "--out", guesses)
        table = pd.read_csv(guesses)
        note("command/predict", {"labels": table.iloc[:, 0].to_numpy().astype(str), "proba": table.iloc[:, 1:]})
        old.run("features", old.IRIS, *drawn, "--out", features, "--save", folder / "map.npz")
        note("command/features", {"features": np.load(features)})


def write_numbers(path):
    """All arrays of a type end to end, and where each is: an entry of its own for each would take more than its numbers."""
    ends, index = {}, {}
    for name, value in numbers.items():
        part = ends.setdefault(value.dtype.str, [])
        index[name] = [value.dtype.str, sum(map(len, part)), list(value.shape)]
        part.append(value.reshape(-1))
    np.savez_compressed(path, index=json.dumps(index), **{kind: np.concatenate(part) for kind, part in ends.items()})


def main():
    if wl.__version__ != "0.1.0":
        sys.exit(f"These are files of version 0.1.0, and this is {wl.__version__}. Leave them as they are.")
    old.register()
    shutil.rmtree(old.OLD, ignore_errors=True)
    old.OLD.mkdir(parents=True)
    write_feature_maps(old.OLD / "features")
    write_models(old.OLD / "models")
    write_networks(old.OLD / "networks.json")
    write_matrix(old.OLD / "matrix")
    write_command(old.OLD / "command")
    write_experiments(old.OLD / "experiments")
    write_numbers(old.OLD / "numbers.npz")
    size = sum(path.stat().st_size for path in old.OLD.rglob("*") if path.is_file())
    print(f"{old.OLD}: {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
