"""CIFAR-10 by ridge regression on random features of a Myrtle network: `python -m widelimit.reproduce.cifar10`.

A run is one seed with one number of features (`myrtle`). The command has an option for every setting of `Config`.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..datasets import Images
from ..regression.device import at_edge
from ..storage.files import digest
from . import EXPERIMENTS, main
from .images import first_images, latest
from .myrtle import CONFIG_OPTIONS, GAUSSIAN, ON_TEST, Config, prepare, run_once, usual_held_out
from .options import Option
from .results import device, read_runs
from .study import Run, Say, Settings, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR = 3600.0
# of the paper: seconds of an A100, accuracy, and how that is written
PUBLISHED = {
    "paper: sketched": (1.4 * HOUR, 0.7813, "78.13 %\n1.4 hours of an A100"),
    "paper: exact": (151 * HOUR, 0.86, "86 to 87 %\n151 hours of an A100"),
}
SMALL = {"features": [512], "train": 2000, "test": 1000}
FULL = {"features": [16_384], "train": Config.train, "test": Config.test}  # the paper's size
_COUNTS = "channels", "train", "test", "held_out"  # written with commas


@dataclass(frozen=True)
class Cifar10(Study):
    """A study with a run for every number of features and seed, which reports its steps. `batch` is a number of images."""

    batch: int | None = None
    reports_steps: ClassVar[bool] = True

    def with_options(self, values: Mapping[str, Any]) -> Self:
        values = dict(values)
        batch = values.pop("batch", None)
        return replace(self, batch=batch, settings=lambda full: _settings(full, values))

    def check(self, config: Settings, data: Images | None) -> None:
        assert data is not None
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"--batch is a number of images of 1 or more, not {self.batch}.")
        Config.from_settings(config).check(data)

    def digest(self, config: Settings, data: Images | None) -> str:
        """The name of a run as all files of results have it: of its settings, the images that it uses and the device."""
        assert data is not None
        settings = json.dumps(config, sort_keys=True)
        return digest(settings, _digest_of_images(data, config["train"], config["test"]), device())

    def outcome(self, config: Settings, data: Images | None, progress: bool, say: Say) -> dict[str, Any]:
        assert data is not None
        settings = Config.from_settings(config)
        x, y, seconds = prepare(settings, data, say)
        return run_once(settings, x, y, seconds, self.batch, progress, say)

    def line(self, place: str, run: Run, varying: Sequence[str]) -> str:
        return run_line(run)

    def runs_to_draw(self, runs: Sequence[Run], out: Path) -> Sequence[Run]:
        """The runs of all configurations in the file, which share a figure."""
        return [run for run in read_runs(out) if run["experiment"] == self.name]

    def text(self, runs: Sequence[Run]) -> str:
        lines = []
        for name, points in summaries(runs).items():
            lines.append(name)
            for p in points:
                spread = "" if p["spread"] is None else f" ± {100 * p['spread']:.2f} over {p['seeds']} seeds"
                lines.append(
                    f"  {p['features']:>7,} features  {p['accuracy']:.2%}{spread}  ({p[ON_TEST]:.2%} {ON_TEST})  "
                    f"{p['seconds']:,.1f} s"
                )
        return "\n".join(lines)


@latest
def _digest_of_images(data: Images, train: int, test: int) -> str:
    return digest(data.x_train, *first_images(data, train, test))


def _settings(full: bool, values: Mapping[str, Any] | None = None) -> list[Settings]:
    """The settings of every run of a size, with `values` in place of the size's own."""
    config = Config.from_settings((FULL if full else SMALL) | dict(values or {}))
    return [run.settings() for run in config.runs()]


def study_of(config: Config, name: str = "cifar10") -> Study:
    """The study of this configuration alone, under another name where the images are not those of the test set."""
    return replace(STUDY, name=name, settings=lambda full: [run.settings() for run in config.runs()])


def label(config: Settings) -> str:
    """A configuration without features and seed, in words."""
    gaussian = f"normalised Gaussian, scale {config['scale']:g}"
    parts = [f"Myrtle-{config['depth']}", gaussian if config["activation"] == GAUSSIAN else config["activation"]]
    parts += [config["kernel"].upper()] + ["flips"] * config["flips"] + ["last stage exact"] * config["exact_last"]
    parts += [f"sketch {config['sketch']}"] * (config["sketch"] != "auto")
    default = Config().settings() | {"held_out": usual_held_out(config["train"])}
    for name in ("degree", "channels", "train", "test", "held_out", "regularization", "kept"):
        if config[name] != default[name]:
            parts.append(f"{name.replace('_', ' ')} {config[name]:,}" if name in _COUNTS else f"{name} {config[name]}")
    if list(config["penalties"]) != default["penalties"]:
        least, largest = min(config["penalties"]), max(config["penalties"])
        parts.append(f"{len(config['penalties'])} penalties from {least:g} to {largest:g}")
    return ", ".join([*parts, config["dtype"]])


def run_line(run: Run) -> str:
    """A run in one line."""
    config, seconds = run["config"], run["seconds"]
    return (
        f"{label(config)}, {config['features'][0]:,} features, seed {config['seeds'][0]}: {run['accuracy']:.2%} "
        f"({run[ON_TEST]['accuracy']:.2%} {ON_TEST}), {seconds['all'] - seconds['preprocessing']:.1f} s after preprocessing; "
        f"{run['images_per_second']:,.0f} images/s"
    )


def summaries(runs: Sequence[Run]) -> dict[str, list[dict[str, Any]]]:
    """For every configuration and device, the mean and spread over seeds for every number of features, and median seconds.

    Seconds are those after preprocessing, which is done once for all runs of a process.
    """
    summary: dict[str, list[dict[str, Any]]] = {}
    for (name, features), group in _group(runs, _configuration_and_features):
        own = list({run["config"]["seeds"][0]: run for run in group}.values())
        accuracies, seconds = ([run[part] for run in own] for part in ("accuracy", "seconds"))
        times = [s["all"] - s["preprocessing"] for s in seconds]
        edges = sum(at_edge(run["penalty"], run["config"]["penalties"]) for run in own)
        on_test = [run[ON_TEST]["accuracy"] for run in own]
        summary.setdefault(name, []).append({
            "features": features, "seeds": len(own), "accuracy": float(np.mean(accuracies)), "spread": _spread(accuracies),
            ON_TEST: float(np.mean(on_test)), "seconds": float(np.median(times)), "slowest": max(times), "at edge": edges,
        })  # fmt: skip
    return summary


def _configuration_and_features(run: Run) -> tuple[str, int]:
    return f"{label(run['config'])} ({run['device']})", run["config"]["features"][0]


def _group(runs: Iterable[Run], key: Callable[[Run], tuple[str, int]]) -> list[tuple[tuple[str, int], list[Run]]]:
    return [(name, list(group)) for name, group in groupby(sorted(runs, key=key), key=key)]


def _spread(values: Sequence[float]) -> float | None:
    """The standard deviation over seeds, where there are several."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def draw(runs: Sequence[Run]) -> "Figure":
    """Accuracy against time, with the paper's."""
    from .plots import Timed, accuracy_against_time

    own = summaries(runs)
    configurations = [name.split(", ") for name in own]
    first = configurations[0] if configurations else []
    shared = [part for part in first if all(part in parts for parts in configurations)]
    series = {
        ", ".join(part for part in parts if part not in shared): [
            Timed(p["seconds"], p["accuracy"], p["spread"] or 0.0, f"{p['features']:,}") for p in points
        ]
        for parts, points in zip(configurations, own.values(), strict=True)
    }
    published = {name: Timed(seconds, accuracy, note=note) for name, (seconds, accuracy, note) in PUBLISHED.items()}
    return accuracy_against_time(series, published, ", ".join(["CIFAR-10", *shared]))


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The mean and spread of every configuration and number of features."""
    return [
        {
            "setting": name, "features": p["features"], "seeds": p["seeds"], "accuracy, %": 100 * p["accuracy"],
            "spread": "" if p["spread"] is None else f"{100 * p['spread']:.2f}", ON_TEST: 100 * p[ON_TEST],
            "seconds": p["seconds"], "slowest": p["slowest"],
            "least or largest penalty": f"{p['at edge']} of {p['seeds']}" if p["at edge"] else "",
        }
        for name, points in summaries(runs).items()
        for p in points
    ]  # fmt: skip


def _compute(config: Settings, data: Images) -> dict[str, Any]:
    """Accuracies and seconds of a run."""
    settings = Config.from_settings(config)
    return run_once(settings, *prepare(settings, data))


CLAIM = (
    "The paper: 78.13 % with 1.4 hours of an A100, where the exact kernel takes 151 hours for 86 to 87 %; 75.56 % with "
    "ReLU."
)
OPTIONS: dict[str, Option] = CONFIG_OPTIONS | {"batch": Option("images at a time (by memory)", metavar="N")}
STUDY = Cifar10("cifar10", EXPERIMENTS["cifar10"], CLAIM, draw, table, _settings, _compute, True, OPTIONS)

if __name__ == "__main__":
    main("cifar10", sys.argv[1:], "python -m widelimit.reproduce.cifar10")
