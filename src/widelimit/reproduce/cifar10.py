"""CIFAR-10 by ridge regression on random features of a Myrtle network: `python -m widelimit.reproduce.cifar10`.

Images are normalised one by one and whitened; features of all images are computed on the device and stay there; the penalty is
chosen on the last training images, and the model then fitted to all of them. With `exact_last` only the first two stages of the
network, where images have many pixels, are features; the kernel of the last stage is computed exactly on top of them.

Every finished run, one seed with one number of features, is written into the file of results, and not computed again.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import groupby, product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from .. import nets
from ..activations import Activation, ExpNormalized, dual, named
from ..datasets import Images, cifar10
from ..features import feature_map as sketched
from ..layers import AvgPool
from ..network import Network
from ..numerics.device import on_accelerator
from ..regression.device import HeldOut, at_edge, chosen_on_held_out, feature_path, kernel_path, scored
from ..sketches import as_sketch
from ..storage.files import digest
from . import main
from .images import check_enough, features_of, latest, rows_of_kernel, seconds_since, whitened
from .results import add_run, check_paths, device, machine, memory, read_runs
from .study import Parser, Shown, save_figure, written

GAUSSIAN = "exp_normalized"
SKETCHES = "auto", "random_weights", "powers", "cosine", "polysketch"
HELD_OUT = 5000
HOUR = 3600.0
# of the paper: seconds of an A100, accuracy, and how that is written
PUBLISHED = {
    "paper: sketched": (1.4 * HOUR, 0.7813, "78.13 %\n1.4 hours of an A100"),
    "paper: exact": (151 * HOUR, 0.86, "86 to 87 %\n151 hours of an A100"),
}
_COUNTS = "channels", "train", "test", "held_out"  # that are written with commas
ON_TEST = "chosen on test images, as the paper did"
_PENALTIES = tuple(float(f"{10.0**power:.3g}") for power in np.arange(-7, 0.5, 0.5))


def _usual_held_out(train: int) -> int:
    return min(HELD_OUT, train // 10)


@dataclass(frozen=True)
class Config:
    """What is computed: every number of features with every seed is a run."""

    depth: int = 5
    activation: str = GAUSSIAN
    scale: float = 1.0  # of the normalised Gaussian a b exp(scale (c - 1))
    kernel: str = "nngp"
    sketch: str = "auto"
    degree: int | None = None  # of sketches that are polynomials
    features: tuple[int, ...] = (4096,)
    flips: bool = False
    exact_last: bool = False
    channels: int | None = None  # that the last stage sees of the features; None: all
    seeds: tuple[int, ...] = (0,)
    train: int = 50_000
    test: int = 10_000
    held_out: int | None = None  # None: 5000, or a tenth of fewer than 50,000
    penalties: tuple[float, ...] = _PENALTIES
    regularization: float = 0.1  # of the whitening
    dtype: str | None = None  # None: bfloat16 on an accelerator, float32 on a CPU
    kept: str = "float32"  # of the features while they wait

    def __post_init__(self):
        """Refuse what makes no sense before any work."""
        self.network()
        if self.sketch not in SKETCHES:
            raise ValueError(f"--sketch is one of {', '.join(SKETCHES)}, not {self.sketch!r}.")
        if self.degree is not None and self.sketch == "auto":
            raise ValueError(
                "--degree is that of --sketch powers, cosine or polysketch, and auto has none. Name the sketch."
            )
        if self.degree == 0:
            raise ValueError("--degree 0 leaves constants alone. Give 1 or more.")
        as_sketch(self.sketch, self.degree)
        if self.kernel not in ("nngp", "ntk"):
            raise ValueError(f"--kernel is nngp or ntk, not {self.kernel!r}.")
        if self.channels is not None and not (self.exact_last and self.channels >= 1):
            raise ValueError(
                f"--channels is a number of 1 or more for the last stage of --exact-last, not {self.channels}"
                f"{'' if self.exact_last else ' without it'}."
            )
        columns = min(self.features, default=1) * (1 + self.flips)
        if self.channels is not None and self.channels > columns:
            raise ValueError(
                f"--channels {self.channels} is more than the {columns} columns of the features. Ask for fewer."
            )
        if self.exact_last and self.kernel == "ntk":
            raise ValueError(
                "--exact-last takes the features of the first stages for the NNGP's, and the NTK has others too. Leave out "
                "--kernel ntk."
            )
        for option, dtype in (("--dtype", self.dtype), ("--kept", self.kept)):
            if dtype is not None and dtype not in ("float32", "bfloat16"):
                raise ValueError(f"{option} is float32 or bfloat16, not {dtype!r}.")
        for option, values, least, most in (
            ("--features", self.features, 1, sketched.MOST), ("--seeds", self.seeds, 0, 2**32 - 1),
            ("--train", (self.train,), 20, 2**31), ("--test", (self.test,), 1, 2**31),
            ("--held-out", (self.resolved_held_out,), 1, 2**31),
        ):  # fmt: skip
            if not values or min(values) < least or max(values) > most:
                seen = ", ".join(map(str, values)) or "none"
                raise ValueError(f"{option} takes whole numbers from {least} to {most:,}, not {seen}.")
        if self.resolved_held_out >= self.train - 1:
            raise ValueError(f"--held-out {self.held_out} leaves nothing of --train {self.train}. Hold out fewer.")
        if not self.penalties or not all(0 < p < np.inf for p in self.penalties):
            raise ValueError(f"--penalties are numbers above 0, not {list(self.penalties)}.")
        if not 0 < self.regularization < np.inf:
            raise ValueError(f"--regularization is a number above 0, not {self.regularization}.")

    @property
    def resolved_held_out(self) -> int:
        """The number of training images that choose the penalty."""
        return _usual_held_out(self.train) if self.held_out is None else self.held_out

    @property
    def resolved_dtype(self) -> str:
        """The dtype that features are computed in."""
        return self.dtype or ("bfloat16" if on_accelerator() else "float32")

    def network(self) -> Network:
        """The Myrtle network, with weights that keep a variance of 1: only activations that are not homogeneous see it."""
        chosen: Activation = named(self.activation)
        if isinstance(chosen, ExpNormalized):
            if not 0 < self.scale < np.inf:
                raise ValueError(f"--scale is a number above 0, not {self.scale}.")
            chosen = ExpNormalized(gamma=self.scale)
        elif self.scale != 1:
            raise ValueError(f"--scale is that of {GAUSSIAN}, and the activation is {self.activation}. Leave it out.")
        return nets.myrtle(self.depth, chosen, W_std=_unit_scale(chosen))

    def runs(self) -> list["Config"]:
        """One for each run, with nothing left to be resolved."""
        settled = replace(self, dtype=self.resolved_dtype, held_out=self.resolved_held_out)
        pairs = product(self.features, self.seeds)
        return [replace(settled, features=(m,), seeds=(seed,)) for m, seed in pairs]


SMALL = {"features": (512,), "train": 2000, "test": 1000}
FULL = {"features": (16_384,), "train": Config.train, "test": Config.test}  # the paper's size


@lru_cache
def _unit_scale(activation: Activation) -> float:
    return float(dual(activation, 1.0, 1.0, 1.0)) ** -0.5


def cut(net: Network) -> tuple[Network, Network]:
    """The stages up to the second pool, and the last one."""
    pools = [i for i, layer in enumerate(net.layers) if isinstance(layer, AvgPool)]
    return net[: pools[1] + 1], net[pools[1] + 1 :]


def reproduce(
    config: Config,
    data: Images,
    out: Path,
    plot: Path | None = None,
    batch: int | None = None,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
    experiment: str = "cifar10",
) -> list[dict[str, Any]]:
    """The results of every run of the configuration: those in the file `out`, and others computed and added to it.

    `plot` is a file for accuracy against time of all results in the file; `batch` a number of images; `say` hears a line about
    every run. `experiment` is another name for runs on other images than the test's.
    """
    _check(config, data, batch)
    images, labels = _asked_for(data, config.train, config.test)
    seen = digest(data.x_train, images, labels)
    known = {run["digest"]: run for run in read_runs(out)}
    wanted = {digest(json.dumps(asdict(run), sort_keys=True), seen, device()): run for run in config.runs()}
    left = {name: run for name, run in wanted.items() if name not in known}
    if len(left) < len(wanted):
        say(f"In {out} already: {len(wanted) - len(left)} of {len(wanted)} runs.")
    if left:
        say(f"Whitening images by all {len(data.x_train):,} of the training set ...")
        x, y, preprocessing = prepared(config, data)
        say(f"preprocessing {preprocessing:.1f} s")
        for name, run in left.items():
            found = run_once(run, x, y, preprocessing, batch, progress, say)
            known[name] = {"experiment": experiment, "digest": name, "config": asdict(run), **found, **machine()}
            add_run(out, known[name])
            say(spoken(known[name]))
    if plot is not None:
        save_figure(SHOWN, [run for run in read_runs(out) if run["experiment"] == SHOWN.name], plot)
    return [known[name] for name in wanted]


def _asked_for(data: Images, train: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """The images, those of the test after those of the training, and their labels."""
    images = np.concatenate([data.x_train[:train], data.x_test[:test]])
    return images, np.concatenate([data.y_train[:train], data.y_test[:test]])


def prepared(config: Config, data: Images) -> tuple[Array, np.ndarray, float]:
    """Whitened images, one-hot targets, and the seconds that took."""
    _check(config, data, None)
    return _prepared(data, config.train, config.test, config.regularization)


@latest
def _prepared(data: Images, train: int, test: int, regularization: float) -> tuple[Array, np.ndarray, float]:
    images, labels = _asked_for(data, train, test)
    began = time.perf_counter()
    x = whitened(data.x_train, images, regularization)  # all of them, where few are to be learned from
    return x, np.eye(len(data.names))[labels], seconds_since(began, x)


def _check(config: Config, data: Images, batch: int | None) -> None:
    check_enough(data, config.train, config.test)
    if batch is not None and batch < 1:
        raise ValueError(f"--batch is a number of images of 1 or more, not {batch}.")
    needed, there = 4 * (config.train + config.test) * max(config.features), memory()
    if not config.exact_last and needed > there:
        raise MemoryError(
            f"--features {max(config.features)} of {config.train + config.test} images take {needed / 1e9:,.0f} GB, and there "
            f"are {there / 1e9:,.0f}. Ask for fewer."
        )
    height, width = data.x_train.shape[1:3]
    if height % 4 or width % 4:
        raise ValueError(f"The two pools halve images, which have {height} x {width} pixels. Give multiples of 4.")


def run_once(
    config: Config, x: Array, y: np.ndarray, preprocessing: float, batch: int | None = None, progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:  # fmt: skip
    """Accuracies and seconds of one run, a configuration of `Config.runs`, of `prepared` images."""
    seconds, net = {"preprocessing": preprocessing}, config.network()

    def took(**steps: float) -> None:
        seconds.update(steps)
        say("  " + ", ".join(f"{name} {value:.1f} s" for name, value in steps.items()))

    head, tail = cut(net) if config.exact_last else (net, None)
    began = time.perf_counter()
    phi = head.feature_map(
        jax.random.key(config.seeds[0]), x.shape[1:], config.features[0], config.kernel, config.sketch, config.degree,
        config.dtype,
    )  # fmt: skip
    took(drawing=seconds_since(began, jax.tree.leaves(phi)))
    kept = config.kept if tail is None else str(config.dtype)
    rows: Any
    rows, of_mirror, compiling, computing = features_of(phi, x, config.flips, kept, batch, progress, config.channels)
    took(compiling=compiling, features=computing)
    if tail is not None:
        began = time.perf_counter()
        rows = rows_of_kernel(tail, rows, config.train, of_mirror, progress)
        took(kernel=seconds_since(began))
    path = feature_path if tail is None else kernel_path
    began = time.perf_counter()
    held_out = chosen_on_held_out(path, rows, y[: config.train], config.resolved_held_out, config.penalties)
    chosen = held_out.chosen
    test = scored(path(rows, y[: config.train], [chosen]), y[config.train :], [chosen])
    took(solving=seconds_since(began))
    seconds["all"] = sum(seconds.values())
    all_on_test = scored(path(rows, y[: config.train], config.penalties), y[config.train :], config.penalties)
    return {
        "accuracy": float(test.accuracies[0]), "penalty": chosen,
        "held_out_accuracy": float(held_out.accuracies.max()),
        ON_TEST: {"accuracy": float(all_on_test.accuracies.max()), "penalty": all_on_test.chosen},
        "seconds": seconds, "images_per_second": len(x) / seconds["features"],
        "held_out": _plain(held_out), "test": _plain(all_on_test),
    }  # fmt: skip


def _plain(found: HeldOut) -> dict[str, list[float | None]]:
    """Null where a penalty was too small."""
    failed = ~np.isfinite(found.errors)
    return {
        name: [None if bad and name != "penalties" else float(v) for v, bad in zip(values, failed, strict=True)]
        for name, values in found._asdict().items()
    }


def named_settings(config: dict[str, Any]) -> str:
    """A configuration without features and seed, in words."""
    gaussian = f"normalised Gaussian, scale {config['scale']:g}"
    parts = [f"Myrtle-{config['depth']}", gaussian if config["activation"] == GAUSSIAN else config["activation"]]
    parts += [config["kernel"].upper()] + ["flips"] * config["flips"] + ["last stage exact"] * config["exact_last"]
    parts += [f"sketch {config['sketch']}"] * (config["sketch"] != "auto")
    plain = asdict(Config()) | {"held_out": _usual_held_out(config["train"])}
    for name in ("degree", "channels", "train", "test", "held_out", "regularization", "kept"):
        if config[name] != plain[name]:
            parts.append(f"{name.replace('_', ' ')} {config[name]:,}" if name in _COUNTS else f"{name} {config[name]}")
    if tuple(config["penalties"]) != Config.penalties:
        least, largest = min(config["penalties"]), max(config["penalties"])
        parts.append(f"{len(config['penalties'])} penalties from {least:g} to {largest:g}")
    return ", ".join([*parts, config["dtype"]])


def spoken(run: dict[str, Any]) -> str:
    """A run in one line."""
    config, seconds = run["config"], run["seconds"]
    return (
        f"{named_settings(config)}, {config['features'][0]:,} features, seed {config['seeds'][0]}: {run['accuracy']:.2%} "
        f"({run[ON_TEST]['accuracy']:.2%} {ON_TEST}), {seconds['all'] - seconds['preprocessing']:.1f} s after preprocessing; "
        f"{run['images_per_second']:,.0f} images/s"
    )


def summaries(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """For every configuration and device, the mean and spread over seeds for every number of features, and median seconds.

    Seconds are those after preprocessing, which is done once for all runs of a process.
    """

    def settings(run: dict[str, Any]) -> str:
        return f"{named_settings(run['config'])} ({run['device']})"

    found: dict[str, list[dict[str, Any]]] = {}
    for key, every in _grouped(runs, lambda run: (settings(run), run["config"]["features"][0])):
        group = list({run["config"]["seeds"][0]: run for run in every}.values())
        accuracies, seconds = ([run[part] for run in group] for part in ("accuracy", "seconds"))
        times = [s["all"] - s["preprocessing"] for s in seconds]
        edges = sum(at_edge(run["penalty"], run["config"]["penalties"]) for run in group)
        on_test = [run[ON_TEST]["accuracy"] for run in group]
        found.setdefault(key[0], []).append({
            "features": key[1], "seeds": len(group), "accuracy": float(np.mean(accuracies)), "spread": _spread(accuracies),
            ON_TEST: float(np.mean(on_test)), "seconds": float(np.median(times)), "slowest": max(times), "at edge": edges,
        })  # fmt: skip
    return found


def _grouped(runs: Sequence[dict[str, Any]], key: Callable) -> list[tuple[Any, list[dict[str, Any]]]]:
    return [(name, list(group)) for name, group in groupby(sorted(runs, key=key), key=key)]


def _spread(values: Sequence[float]) -> float | None:
    """The standard deviation over seeds, where there are several."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def draw(runs: Sequence[dict[str, Any]]) -> Any:
    """Accuracy against time, with the paper's."""
    from .plots import Timed, accuracy_against_time

    own = summaries(runs)
    every = [name.split(", ") for name in own]
    shared = [part for part in every[0] if all(part in parts for parts in every)] if every else []
    series = {
        ", ".join(part for part in parts if part not in shared): [
            Timed(p["seconds"], p["accuracy"], p["spread"] or 0.0, f"{p['features']:,}") for p in points
        ]
        for parts, points in zip(every, own.values(), strict=True)
    }
    published = {name: Timed(seconds, accuracy, note=note) for name, (seconds, accuracy, note) in PUBLISHED.items()}
    return accuracy_against_time(series, published, ", ".join(["CIFAR-10", *shared]))


def table(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
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


SHOWN = Shown(
    "cifar10",
    "CIFAR-10 in seconds",
    "The paper: 78.13 % with 1.4 hours of an A100, where the exact kernel takes 151 hours for 86 to 87 %; 75.56 % with ReLU.",
    draw,
    table,
)


def parser(prog: str) -> argparse.ArgumentParser:
    """The options of either command."""
    plain = Config()
    made = Parser(prog=prog, description=(__doc__ or "").split("\n\n")[1], allow_abbrev=False)
    add = made.add_argument
    add("--data", metavar="FOLDER", help="where CIFAR-10 is, unpacked or as .tar.gz")
    add("--download", action="store_true", help="fetch the data where it is missing")
    add("--full", action="store_true", help="the paper's size, in place of one of minutes")
    add("--out", type=Path, default=Path("cifar10.json"), metavar="FILE", help="the file of results (cifar10.json)")
    add("--plot", type=Path, metavar="FILE", help="draw accuracy against time into this .png, .svg or .pdf")
    add("--depth", type=int, default=plain.depth, help="of the Myrtle network: 5, 7 or 10 (%(default)s)")
    add(
        "--activation",
        default=plain.activation,
        metavar="NAME",
        help="the paper's normalised Gaussian, or another (%(default)s)",
    )
    add(
        "--scale",
        type=float,
        default=plain.scale,
        help="of the normalised Gaussian a b exp(scale (c - 1)) (%(default)s)",
    )
    add("--kernel", default=plain.kernel, metavar="KERNEL", help="nngp or ntk (%(default)s)")
    add("--sketch", default=plain.sketch, metavar="KIND",
        help=f"{', '.join(SKETCHES[:-1])} or {SKETCHES[-1]} (%(default)s)")  # fmt: skip
    add("--degree", type=int, help="of powers, cosine or polysketch (8; cosine 12)")
    add("--features", type=int, nargs="+", metavar="M", help="one or several numbers (512; with --full 16384)")
    add("--flips", action="store_true", help="a kernel that an image and its mirror image share")
    add("--exact-last", action="store_true", help="features up to the second pool, the exact kernel of the last stage")
    add("--channels", type=int, metavar="C", help="turn the features into so many for the exact last stage (all)")
    add("--seeds", type=int, nargs="+", default=plain.seeds, metavar="SEED", help="one or several (0)")
    add("--train", type=int, metavar="N", help="training images (2000; with --full 50000)")
    add("--test", type=int, metavar="N", help="test images (1000; with --full 10000)")
    add("--held-out", type=int, metavar="N", help="training images that choose the penalty (5000, or a tenth)")
    add("--penalties", type=float, nargs="+", default=plain.penalties, metavar="P",
        help="shares of the mean diagonal of the centred kernel (1e-7 to 1)")  # fmt: skip
    add("--regularization", type=float, default=plain.regularization, help="of the whitening (%(default)s)")
    add("--dtype", metavar="DTYPE", help="float32 or bfloat16, to compute features in (bfloat16 on an accelerator)")
    add("--kept", default=plain.kept, metavar="DTYPE", help="float32 or bfloat16, to keep them in (%(default)s)")
    add("--batch", type=int, metavar="N", help="images at a time (by memory)")
    add("--json", action="store_true", help="print the results as JSON, and nothing else, to standard output")
    return made


def run_command(arguments: Sequence[str], prog: str) -> None:
    """Either command, with its arguments."""
    given = parser(prog).parse_args(arguments)
    values: dict[str, Any] = {field.name: getattr(given, field.name) for field in fields(Config)}
    values |= {name: size for name, size in (FULL if given.full else SMALL).items() if values[name] is None}
    several = {name: tuple(values[name]) for name in ("features", "seeds", "penalties")}
    config = Config(**(values | several))
    check_paths(given.out, given.plot)
    data = cifar10(given.data, given.download)
    shown = sys.stderr.isatty() and not given.json
    runs = reproduce(config, data, given.out, given.plot, given.batch, shown, lambda line: print(line, file=sys.stderr))
    print(written(given.out, given.plot), file=sys.stderr)
    if given.json:
        print(json.dumps(runs))
        return
    for name, points in summaries(runs).items():
        print(name)
        for p in points:
            spread = "" if p["spread"] is None else f" ± {100 * p['spread']:.2f} over {p['seeds']} seeds"
            print(
                f"  {p['features']:>7,} features  {p['accuracy']:.2%}{spread}  ({p[ON_TEST]:.2%} {ON_TEST})  "
                f"{p['seconds']:,.1f} s"
            )


if __name__ == "__main__":
    main("cifar10", sys.argv[1:], "python -m widelimit.reproduce.cifar10")
