"""Ridge regression on features of a Myrtle network: one run, from images to accuracies.

Images are normalised one by one and whitened; features of all images are computed on the device and stay there; the penalty is
chosen on the last training images, and the model then fitted to all of them. With `exact_last` only the first two stages of the
network, where images have many pixels, are features; the kernel of the last stage is computed exactly on top of them.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Array

from .. import nets
from ..activations import Activation, ExpNormalized, dual, named
from ..datasets import Images
from ..features import feature_map as maps
from ..layers import AvgPool
from ..network import Network
from ..numerics.device import on_accelerator
from ..regression.device import HeldOut, chosen_on_held_out, feature_path, kernel_path, scored
from ..sketches import as_sketch
from .images import check_enough, features_of, first_images, latest, rows_of_kernel, seconds_since, whiten
from .options import Option
from .results import memory

GAUSSIAN = "exp_normalized"
SKETCHES = "auto", "random_weights", "powers", "cosine", "polysketch"
HELD_OUT = 5000
ON_TEST = "chosen on test images, as the paper did"
_PENALTIES = tuple(float(f"{10.0**power:.3g}") for power in np.arange(-7, 0.5, 0.5))


def usual_held_out(train: int) -> int:
    """The default number of training images that choose the penalty."""
    return min(HELD_OUT, train // 10)


def _setting(
    default: Any, text: str, kind: type[bool] | type[int] | type[float] | type[str] = int, several: bool = False,
    metavar: str | None = None, by_size: bool = False,
) -> Any:  # fmt: skip
    """A setting with its default and its option, which has the same default, or none where that depends on the size."""
    option = Option(text, kind, None if by_size else default, several, metavar)
    return field(default=default, metadata={"option": option})


@dataclass(frozen=True)
class Config:
    """The settings of runs, each with its option of the command. Every number of features with every seed is a run."""

    depth: int = _setting(5, "of the Myrtle network: 5, 7 or 10 (%(default)s)")
    activation: str = _setting(
        GAUSSIAN, "the paper's normalised Gaussian, or another (%(default)s)", str, metavar="NAME"
    )
    scale: float = _setting(1.0, "of the normalised Gaussian a b exp(scale (c - 1)) (%(default)s)", float)
    kernel: str = _setting("nngp", "nngp or ntk (%(default)s)", str, metavar="KERNEL")
    sketch: str = _setting("auto", f"{', '.join(SKETCHES[:-1])} or {SKETCHES[-1]} (%(default)s)", str, metavar="KIND")
    degree: int | None = _setting(None, "of powers, cosine or polysketch (8; cosine 12)")
    features: tuple[int, ...] = _setting(
        (4096,), "one or several numbers (512; with --full 16384)", several=True, metavar="M", by_size=True
    )
    flips: bool = _setting(False, "a kernel that an image and its mirror image share", bool)
    exact_last: bool = _setting(False, "features up to the second pool, the exact kernel of the last stage", bool)
    channels: int | None = _setting(None, "turn the features into so many for the exact last stage (all)", metavar="C")
    seeds: tuple[int, ...] = _setting((0,), "one or several (0)", several=True, metavar="SEED")
    train: int = _setting(50_000, "training images (2000; with --full 50000)", metavar="N", by_size=True)
    test: int = _setting(10_000, "test images (1000; with --full 10000)", metavar="N", by_size=True)
    held_out: int | None = _setting(None, "training images that choose the penalty (5000, or a tenth)", metavar="N")
    penalties: tuple[float, ...] = _setting(
        _PENALTIES, "shares of the mean diagonal of the centred kernel (1e-7 to 1)", float, several=True, metavar="P"
    )
    regularization: float = _setting(0.1, "of the whitening (%(default)s)", float)
    dtype: str | None = _setting(
        None, "float32 or bfloat16, to compute features in (bfloat16 on an accelerator)", str, metavar="DTYPE"
    )
    kept: str = _setting("float32", "float32 or bfloat16, to keep them in (%(default)s)", str, metavar="DTYPE")

    def __post_init__(self) -> None:
        """Refuse what makes no sense before any work."""
        self.network()
        self._check_sketch()
        self._check_exact_last()
        for option, dtype in (("--dtype", self.dtype), ("--kept", self.kept)):
            if dtype is not None and dtype not in ("float32", "bfloat16"):
                raise ValueError(f"{option} is float32 or bfloat16, not {dtype!r}.")
        for option, values, least, most in (
            ("--features", self.features, 1, maps.MOST), ("--seeds", self.seeds, 0, 2**32 - 1),
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

    def _check_sketch(self) -> None:
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

    def _check_exact_last(self) -> None:
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

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The configuration of settings from a file of results, where tuples are lists."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
        }
        return cls(**values)

    def settings(self) -> dict[str, Any]:
        """The settings for a file of results."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def resolved_held_out(self) -> int:
        """The number of training images that choose the penalty."""
        return usual_held_out(self.train) if self.held_out is None else self.held_out

    @property
    def resolved_dtype(self) -> str:
        """The dtype that features are computed in."""
        return self.dtype or ("bfloat16" if on_accelerator() else "float32")

    def network(self) -> Network:
        """The Myrtle network. Weights keep a variance of 1, which matters to activations that are not homogeneous."""
        activation: Activation = named(self.activation)
        if isinstance(activation, ExpNormalized):
            if not 0 < self.scale < np.inf:
                raise ValueError(f"--scale is a number above 0, not {self.scale}.")
            activation = ExpNormalized(gamma=self.scale)
        elif self.scale != 1:
            raise ValueError(f"--scale is that of {GAUSSIAN}, and the activation is {self.activation}. Leave it out.")
        return nets.myrtle(self.depth, activation, W_std=_unit_scale(activation))

    def runs(self) -> list["Config"]:
        """A configuration for each run, with every setting resolved."""
        resolved = replace(self, dtype=self.resolved_dtype, held_out=self.resolved_held_out)
        pairs = product(self.features, self.seeds)
        return [replace(resolved, features=(m,), seeds=(seed,)) for m, seed in pairs]

    def check(self, data: Images) -> None:
        """Refuse images that are too few, or of other sizes, and more features than the memory holds."""
        check_enough(data, self.train, self.test)
        images, columns = self.train + self.test, max(self.features)
        needed, available = 4 * images * columns, memory()
        if not self.exact_last and needed > available:
            raise MemoryError(
                f"--features {columns} of {images} images take {needed / 1e9:,.0f} GB, and there are "
                f"{available / 1e9:,.0f}. Ask for fewer."
            )
        height, width = data.x_train.shape[1:3]
        if height % 4 or width % 4:
            raise ValueError(f"The two pools halve images, which have {height} x {width} pixels. Give multiples of 4.")


CONFIG_OPTIONS: dict[str, Option] = {f.name: f.metadata["option"] for f in fields(Config)}


@lru_cache
def _unit_scale(activation: Activation) -> float:
    return float(dual(activation, 1.0, 1.0, 1.0)) ** -0.5


def cut(net: Network) -> tuple[Network, Network]:
    """The stages up to the second pool, and the last one."""
    pools = [i for i, layer in enumerate(net.layers) if isinstance(layer, AvgPool)]
    return net[: pools[1] + 1], net[pools[1] + 1 :]


def silent(line: str) -> None:
    """Print nothing."""


def prepare(config: Config, data: Images, say: Callable[[str], None] = silent) -> tuple[Array, np.ndarray, float]:
    """Whitened images, one-hot targets, and the seconds that took."""
    config.check(data)
    return _prepare(data, config.train, config.test, config.regularization, say)


@latest
def _prepare(
    data: Images, train: int, test: int, regularization: float, say: Callable[[str], None]
) -> tuple[Array, np.ndarray, float]:
    say(f"Whitening images by all {len(data.x_train):,} of the training set ...")
    images, labels = first_images(data, train, test)
    start = time.perf_counter()
    x = whiten(data.x_train, images, regularization)  # fitted to all of them, also where few are trained on
    seconds = seconds_since(start, x)
    say(f"preprocessing {seconds:.1f} s")
    return x, np.eye(len(data.names))[labels], seconds


def run_once(
    config: Config, x: Array, y: np.ndarray, preprocessing: float, batch: int | None = None, progress: bool = False,
    say: Callable[[str], None] = silent,
) -> dict[str, Any]:  # fmt: skip
    """Accuracies and seconds of one run, a configuration of `Config.runs`, on images of `prepare`."""
    seconds = {"preprocessing": preprocessing}

    def record(**steps: float) -> None:
        seconds.update(steps)
        say("  " + ", ".join(f"{name} {value:.1f} s" for name, value in steps.items()))

    rows = _rows(config, x, batch, progress, record)
    path, targets = kernel_path if config.exact_last else feature_path, y[: config.train]
    start = time.perf_counter()
    held_out = chosen_on_held_out(path, rows, targets, config.resolved_held_out, config.penalties)
    penalty = held_out.chosen
    test = scored(path(rows, targets, [penalty]), y[config.train :], [penalty])
    record(solving=seconds_since(start))
    seconds["all"] = sum(seconds.values())
    all_on_test = scored(path(rows, targets, config.penalties), y[config.train :], config.penalties)
    return {
        "accuracy": float(test.accuracies[0]), "penalty": penalty,
        "held_out_accuracy": float(held_out.accuracies.max()),
        ON_TEST: {"accuracy": float(all_on_test.accuracies.max()), "penalty": all_on_test.chosen},
        "seconds": seconds, "images_per_second": len(x) / seconds["features"],
        "held_out": _as_lists(held_out), "test": _as_lists(all_on_test),
    }  # fmt: skip


def _rows(config: Config, x: Array, batch: int | None, progress: bool, record: Callable[..., None]) -> Any:
    """Features of the images, or with `exact_last` their kernels with the training images."""
    net = config.network()
    head, tail = cut(net) if config.exact_last else (net, None)
    start = time.perf_counter()
    phi = head.feature_map(
        jax.random.key(config.seeds[0]), x.shape[1:], config.features[0], config.kernel, config.sketch, config.degree,
        config.dtype,
    )  # fmt: skip
    record(drawing=seconds_since(start, jax.tree.leaves(phi)))
    kept = config.kept if tail is None else config.resolved_dtype
    made = features_of(phi, x, config.flips, kept, batch, progress, config.channels)
    record(compiling=made.compiling, features=made.seconds)
    if tail is None:
        return made.features
    start = time.perf_counter()
    kernels = rows_of_kernel(tail, made.features, config.train, made.of_mirror, progress)
    record(kernel=seconds_since(start))
    return kernels


def _as_lists(scores: HeldOut) -> dict[str, list[float | None]]:
    """Scores as plain values: null where a penalty was too small."""
    failed = ~np.isfinite(scores.errors)
    return {
        name: [None if bad and name != "penalties" else float(v) for v, bad in zip(values, failed, strict=True)]
        for name, values in scores._asdict().items()
    }
