"""Figure 2 of the paper: accuracy on CIFAR-10 against the number of features, and the dual kernels beside it.

Ridge regression on features of Myrtle-5 for ReLU, for the ABReLU whose dual meets the normalised Gaussian's at both ends, and
for the normalised Gaussian a b exp(scale (c - 1)) with two scales. The paper sketches the NTK; features of the NNGP do better
with the same number of columns, so both are here. Everything else is as in the experiment `cifar10`; at the small size, images
are averaged to 8 x 8 pixels.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ..activations import Activation, ExpNormalized, named
from ..datasets import Images
from ..regression.device import at_edge
from . import EXPERIMENTS
from .images import average, latest
from .labels import image_counts, sides
from .myrtle import GAUSSIAN, ON_TEST, Config, prepare, run_once
from .study import ImageStudy, Run

SERIES = ("relu", 1.0), ("abrelu", 1.0), (GAUSSIAN, 1.0), (GAUSSIAN, 0.5)  # activations, and scales of the Gaussian
SIDE = 32  # pixels along a side of CIFAR-10's images
KINDS = ("nngp", 0), ("ntk", 0), ("nngp", 1), ("nngp", 2)  # kernels and seeds
# of the paper: accuracy with 2^14 features, the penalty chosen on test images
PUBLISHED = {"paper: scaled normalised Gaussian": (2**14, 0.7813), "paper: ReLU": (2**14, 0.7556)}


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every activation, kernel and seed, with all numbers of features."""
    sizes: dict[str, Any] = {"features": [2**power for power in range(6, 11)], "train": 5000, "test": 2000, "pixels": 8}
    if full:
        sizes = {
            "features": [2**power for power in range(9, 15)], "train": Config.train, "test": Config.test, "pixels": SIDE
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
    every = Config(features=features, penalties=penalties, seeds=(config["seed"],), **rest)
    x, y, preprocessing = prepare(every, _smaller(data, config["pixels"]))
    results = [run_once(one, x, y, preprocessing) for one in every.runs()]
    return {
        "accuracies": [result["accuracy"] for result in results],
        ON_TEST: [result[ON_TEST]["accuracy"] for result in results],
        "penalties": [result["penalty"] for result in results],
        "seconds": [result["seconds"] for result in results],
    }


@latest
def _smaller(data: Images, pixels: int) -> Images:
    return data._replace(x_train=average(data.x_train, pixels), x_test=average(data.x_test, pixels))


def activation(name: str, scale: float) -> Activation:
    """The activation of a series."""
    return ExpNormalized(gamma=scale) if name == GAUSSIAN else named(name)


def label(name: str, scale: float) -> str:
    """The activation of a series in words."""
    return f"normalised Gaussian, scale {scale:g}" if name == GAUSSIAN else {"relu": "ReLU", "abrelu": "ABReLU"}[name]


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Mean accuracies over seeds in per cent, their spread, and the number of seeds whose penalty is at an end of the grid."""
    rows = []
    for (size, kernel, series), own in _groups(runs):
        accuracies = 100 * np.array([run["accuracies"] for run in own])
        on_test = 100 * np.array([run[ON_TEST] for run in own])
        edges = _at_edges(own).sum(0)
        for i, features in enumerate(size.features):
            spread = f"{accuracies[:, i].std(ddof=1):.2f}" if len(own) > 1 else ""
            rows.append({
                "images": size.label(), "dtype": size.dtype, "activation": label(*series), "kernel": kernel.upper(),
                "features": features, "seeds": len(own), "accuracy, %": float(accuracies[:, i].mean()), "spread": spread,
                ON_TEST: float(on_test[:, i].mean()),
                "least or largest penalty": f"{edges[i]} of {len(own)}" if edges[i] else "",
            })  # fmt: skip
    return rows


def draw(runs: Sequence[Run]) -> Any:
    """Accuracy by features on the left, the dual kernels on the right; NTKs are dashed."""
    from .plots import Line, accuracy_by_features

    groups = _groups(runs)
    sizes = list(dict.fromkeys(size for (size, *_), _ in groups))
    lines = []
    for (size, kernel, series), own in groups:
        accuracies = np.array([run["accuracies"] for run in own])
        name = f"{label(*series)}, {kernel.upper()}"
        name += f", {size.label()}, {size.dtype}" if len(sizes) > 1 else ""
        spread = accuracies.std(0, ddof=1) if len(own) > 1 else np.zeros(len(size.features))
        bounds, place = _at_edges(own).sum(0) > 0, SERIES.index(series)
        lines.append(Line(name, size.features, accuracies.mean(0), spread, place, kernel == "ntk", bounds))
    in_full = any((size.train, size.pixels) == (Config.train, SIDE) for size in sizes)
    duals = {label(name, scale): activation(name, scale) for name, scale in SERIES}
    title = f"CIFAR-10 by features of Myrtle-5: {'; '.join(dict.fromkeys(size.label() for size in sizes))}"
    return accuracy_by_features(lines, PUBLISHED if in_full else {}, duals, title)


class _Size(NamedTuple):
    """The settings that runs share whose accuracies are compared."""

    train: int
    test: int
    pixels: int
    dtype: str
    features: tuple[int, ...]

    def label(self) -> str:
        return f"{image_counts(self.train, self.test)} of {sides(self.pixels, self.pixels)}"


def _groups(runs: Sequence[Run]) -> list[tuple[tuple[_Size, str, tuple[str, float]], list[Run]]]:
    """The seeds of every size, kernel and activation, in the order of the series."""

    def key(run: Run) -> tuple[_Size, str, int]:
        config = run["config"]
        size = _Size(**{name: config[name] for name in _Size._fields} | {"features": tuple(config["features"])})
        return size, config["kernel"], SERIES.index((config["activation"], config["scale"]))

    groups = []
    for (size, kernel, place), own in groupby(sorted(runs, key=key), key=key):
        by_seed = {run["config"]["seed"]: run for run in own}
        groups.append(((size, kernel, SERIES[place]), list(by_seed.values())))
    return groups


def _at_edges(runs: Sequence[Run]) -> np.ndarray:
    """Where a penalty is at an end of the grid, (seeds, features)."""
    return np.array([[at_edge(penalty, run["config"]["penalties"]) for penalty in run["penalties"]] for run in runs])


CLAIM = (
    "The paper: accuracy grows with features to 78.13 % with a scaled normalised Gaussian and 75.56 % with ReLU at 2^14; "
    "ABReLU is close to the unscaled normalised Gaussian, as their duals are."
)
OPTIONS = {"train": "training images (5000; with --full 50000)", "test": "test images (2000; with --full 10000)"}
STUDY = ImageStudy("widths", EXPERIMENTS["widths"], CLAIM, draw, table, settings, compute, True, OPTIONS)
