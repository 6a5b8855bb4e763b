"""Texts: networks as code and as JSON; and the command line."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from typer.testing import CliRunner

import widelimit as wl
from widelimit import data
from widelimit.cli import app

from . import draw

Made = dict[str, Any]


def networks(rng: np.random.Generator) -> Made:
    """`repr`, `to_json`, `from_json`, slices and lengths."""
    net = draw.images_network(rng) if draw.likely(rng, 0.5) else draw.rows_network(rng, computed=0.4)
    again = wl.from_json(net.to_json())
    cut = int(rng.integers(len(net)))
    return {
        "text": repr(net), "json": net.to_json(), "again": repr(again), "equal": again == net, "length": len(net),
        "head": repr(net[:cut]), "layer": repr(net[cut]),
        "preset": repr(wl.nets.myrtle(draw.one(rng, (5, 7, 10)), "gelu", 1.2)),
        "kinds": repr([wl.sketch.Powers(3), wl.sketch.Auto(), wl.sketch.RandomWeights(2), wl.sketch.Cosine(4)]),
    }  # fmt: skip


def commands(rng: np.random.Generator) -> Made:
    """A table written and read; `fit`, `predict`, `features`, `kernel` and `info` on it."""
    x = rng.normal(size=(40, 3))
    y = np.where(x[:, 0] + x[:, 1] ** 2 > 0.5, "a", "b") if draw.likely(rng, 0.5) else np.sin(x[:, 0])
    found: Made = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        data.write(path, {**{f"c{i}": x[:, i] for i in range(3)}, "y": y})
        found |= {"table": data.read(path, "y"), "columns": data.columns_of(path)}

        def run(*arguments: str) -> Any:
            done = CliRunner().invoke(app, [*arguments, "--json"])
            told = json.loads(done.stdout) if done.exit_code == 0 else {"failed": done.exit_code}
            return {key: value for key, value in told.items() if "seconds" not in key and folder not in str(value)}

        model = f"{folder}/model.npz"
        options = draw.one(rng, (["--method", "exact"], ["--method", "sketched", "--components", "20"]))
        found["fit"] = run(
            "fit", str(path), "--target", "y", "--out", model, "--depth", "1", "--penalty", "0.1", *options
        )
        found["predict"] = run("predict", model, str(path), "--score")
        found["info"] = run("info", model)
        kernel = f"{folder}/K.npy"
        found["kernel"] = run(
            "kernel", str(path), "--target", "y", "--out", kernel, "--activation", "relu", "--depth", "1"
        )
        found["matrix"] = np.load(kernel)
    return found
