"""Figure 2 of the paper: accuracy on CIFAR-10 against the number of features, and the dual kernels beside it.

Ridge regression on features of Myrtle-5 for ReLU, for the ABReLU whose dual meets the normalised Gaussian's at both ends, and
for the normalised Gaussian a b exp(scale (c - 1)) with two scales. The paper sketches the NTK; features of the NNGP do better
at equal columns, so both are here. Everything else is as in the experiment `cifar10`; in small, images are averaged to 8 x 8
pixels.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from ..activations import Activation, ExpNormalized, named
from ..data import Images
from .cifar10 import GAUSSIAN, ON_TEST, Config, prepared, run_once
from .images import averaged, latest
from .study import Run, Study, run_study

SERIES = ("relu", 1.0), ("abrelu", 1.0), (GAUSSIAN, 1.0), (GAUSSIAN, 0.5)  # activations, and scales of the Gaussian
KINDS = ("nngp", 0), ("ntk", 0), ("nngp", 1), ("nngp", 2)  # kernels and seeds
# of the paper: accuracy with 2^14 features, the penalty chosen on test images
PUBLISHED = {"paper: scaled normalised Gaussian": (2**14, 0.7813), "paper: ReLU": (2**14, 0.7556)}


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every activation, kernel and seed, with all numbers of features."""
    sizes: dict[str, Any] = {"features": [2**power for power in range(6, 11)], "train": 5000, "test": 2000, "pixels": 8}
    if full:
        sizes = {
            "features": [2**power for power in range(9, 15)], "train": Config.train, "test": Config.test, "pixels": 32
        }  # fmt: skip
    sizes |= {"penalties": list(Config.penalties), "dtype": Config().resolved_dtype}
    return [
        {"activation": name, "scale": scale, "kernel": kernel, "seed": seed, **sizes}
        for kernel, seed in KINDS
        for name, scale in SERIES
    ]


def compute(config: dict[str, Any], data: Images) -> dict[str, Any]:
    """The accuracy and seconds of every number of features."""
    rest = {name: config[name] for name in ("activation", "scale", "kernel", "train", "test", "dtype")}
    features, penalties = tuple(config["features"]), tuple(config["penalties"])
    runs = Config(features=features, penalties=penalties, seeds=(config["seed"],), **rest).runs()
    x, y, preprocessing = prepared(runs[0], _smaller(data, config["pixels"]))
    found = [run_once(run, x, y, preprocessing) for run in runs]
    return {
        "accuracies": [run["accuracy"] for run in found],
        ON_TEST: [run[ON_TEST]["accuracy"] for run in found],
        "penalties": [run["penalty"] for run in found],
        "seconds": [run["seconds"] for run in found],
    }


@latest
def _smaller(data: Images, pixels: int) -> Images:
    return data._replace(x_train=averaged(data.x_train, pixels), x_test=averaged(data.x_test, pixels))


def activation(name: str, scale: float) -> Activation:
    """The activation of a series."""
    return ExpNormalized(gamma=scale) if name == GAUSSIAN else named(name)


def spoken(name: str, scale: float) -> str:
    """The same in words."""
    return f"normalised Gaussian, scale {scale:g}" if name == GAUSSIAN else {"relu": "ReLU", "abrelu": "ABReLU"}[name]


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Mean accuracies over seeds, in per cent, and their spread."""
    rows = []
    for (kernel, name, scale, train, dtype), own in _groups(runs):
        every = 100 * np.array([run["accuracies"] for run in own])
        on_test = 100 * np.array([run[ON_TEST] for run in own])
        for i, features in enumerate(own[0]["config"]["features"]):
            spread = f"{every[:, i].std(ddof=1):.2f}" if len(own) > 1 else ""
            rows.append({
                "activation": spoken(name, scale), "kernel": kernel.upper(), "dtype": dtype, "training images": train,
                "features": features, "seeds": len(own), "accuracy, %": float(every[:, i].mean()), "spread": spread,
                ON_TEST: float(on_test[:, i].mean()),
            })  # fmt: skip
    return rows


def draw(runs: Sequence[Run]) -> Any:
    """Accuracy by features on the left, the dual kernels on the right; NTKs are dashed."""
    from ..plots import Line, accuracy_by_features

    groups = _groups(runs)
    several = len({key[3:] for key, _ in groups}) > 1
    lines = []
    for (kernel, name, scale, train, dtype), own in groups:
        every = np.array([run["accuracies"] for run in own])
        label = f"{spoken(name, scale)}, {kernel.upper()}" + (f", {train:,} images, {dtype}" if several else "")
        spread = every.std(0, ddof=1) if len(every) > 1 else np.zeros(every.shape[1])
        place = SERIES.index((name, scale))
        lines.append(Line(label, own[0]["config"]["features"], every.mean(0), spread, place, kernel == "ntk"))
    full = any(key[3] == Config.train for key, _ in groups)
    duals = {spoken(name, scale): activation(name, scale) for name, scale in SERIES}
    sizes = {(run["config"]["train"], run["config"]["pixels"]) for run in runs}
    spoken_sizes = " and ".join(f"{train:,} training images of {side} x {side}" for train, side in sorted(sizes))
    title = f"CIFAR-10 by features of Myrtle-5: {spoken_sizes}"
    return accuracy_by_features(lines, PUBLISHED if full else {}, duals, title)


def _groups(runs: Sequence[Run]) -> list[tuple[tuple[str, str, float, int, str], list[Run]]]:
    """The seeds of every kernel, activation, number of training images and dtype, in the order of the series."""

    def key(run: Run) -> tuple:
        config = run["config"]
        place = SERIES.index((config["activation"], config["scale"]))
        return config["train"], config["dtype"], config["kernel"], place, config["pixels"], config["features"]

    found = []
    for (train, dtype, kernel, place, *_), own in groupby(sorted(runs, key=key), key=key):
        of_seeds = {run["config"]["seed"]: run for run in own}
        found.append(((kernel, *SERIES[place], train, dtype), list(of_seeds.values())))
    return found


SHOWN = Study(
    "widths",
    "Figure 2: CIFAR-10 by the number of features",
    "The paper: accuracy grows with features to 78.13 % with a scaled normalised Gaussian and 75.56 % with ReLU at 2^14; "
    "ABReLU is close to the unscaled normalised Gaussian, as their duals are.",
    draw,
    table,
    settings,
    compute,
    of_images=True,
    options={"train": "training images (5000; with --full 50000)", "test": "test images (2000; with --full 10000)"},
)
run_command = partial(run_study, SHOWN)
