"""The paper's speed-up: the exact kernel of Myrtle-5 against its features, for 20,000 and 60,000 images of 32x32x3 pixels.

Both are timed on blocks, on one device, after a call that compiles, and projected: n (n + 1) / 2 pairs of the exact kernel, and
n images of features. The paper took 151 GPU-hours for the exact kernel of 60,000 images, 16.8 for one of 20,000, and 1.4 for
16,384 features of 60,000: ratios of 106 and, at about equal accuracy, 12. Solving for the weights is in none of these.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from . import EXPERIMENTS
from .study import Run, Study
from .timing import exact_and_sketch_seconds, pair_count

SHAPE = 32, 32, 3
NAMES = {"exp_normalized": "normalised Gaussian", "relu": "ReLU"}
MANY, FEW = 60_000, 20_000
PAPER = {"exact": {FEW: 16.8, MANY: 151.0}, "sketched": {MANY: 1.4}}  # hours
HOUR = 3600
PAPER_ROW = {
    "of": "the paper, one A100", "kernel": "ntk", "columns": 16_384,
    "µs a pair": PAPER["exact"][MANY] * HOUR / pair_count(MANY) * 1e6,
    "ms an image": PAPER["sketched"][MANY] * HOUR / MANY * 1e3,
    "first calls, s": "", "exact 60,000, h": PAPER["exact"][MANY], "sketched 60,000, h": PAPER["sketched"][MANY],
    "ratio": 106.0, "exact 20,000, h": PAPER["exact"][FEW], "its ratio to sketched 60,000": 12.0, "to sketched 20,000": "",
}  # fmt: skip


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every activation and kernel; the dtype is that of features, and the exact kernel has float32."""
    sizes: dict[str, Any] = {"columns": 2048, "dtype": "float32", "exact images": 8, "images": 16, "seed": 0}
    if full:
        sizes = {"columns": 16_384, "dtype": "bfloat16", "exact images": 256, "images": 4096, "seed": 0}
    return [{"activation": name, "kernel": get, **sizes} for name, get in product(NAMES, ("ntk", "nngp"))]


def compute(config: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a pair by the exact kernel and of an image by features, and seconds of the first calls."""
    return exact_and_sketch_seconds(config, SHAPE)


def hours(run: Run, exact: bool, n: int) -> float:
    """Hours that n images would take."""
    return (pair_count(n) * run["seconds a pair"] if exact else n * run["seconds an image"]) / HOUR


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Times, projections and ratios: of equal numbers of images, and the paper's, 20,000 exact to 60,000 sketched."""
    rows = [PAPER_ROW]
    for run in runs:
        config = run["config"]
        exact, sketched = partial(hours, run, True), partial(hours, run, False)
        rows.append(
            {
                "of": f"{NAMES[config['activation']]}, {run['device']}",
                "kernel": config["kernel"],
                "columns": config["columns"],
                "µs a pair": 1e6 * run["seconds a pair"],
                "ms an image": 1e3 * run["seconds an image"],
                "first calls, s": f"{run['first calls']['exact']:.1f} + {run['first calls']['features']:.1f}",
                "exact 60,000, h": exact(MANY),
                "sketched 60,000, h": sketched(MANY),
                "ratio": exact(MANY) / sketched(MANY),
                "exact 20,000, h": exact(FEW),
                "its ratio to sketched 60,000": exact(FEW) / sketched(MANY),
                "to sketched 20,000": exact(FEW) / sketched(FEW),
            }
        )
    return rows


def draw(runs: Sequence[Run]) -> Any:
    """Projected hours against the number of images, a panel for each device, number of columns and kernel."""
    from .plots import Curve, Laws, power_laws

    n = np.array([1000, 3000, 10_000, FEW, MANY])
    panels: dict[Any, Laws] = {}
    for run in runs:
        config = run["config"]
        name = f"{config['kernel'].upper()}, {config['columns']:,} columns"
        title = f"{name}\n{run['device']}"
        panel = panels.setdefault(title, Laws(title, "images", "hours, projected", [], {}))
        for kind in PAPER:
            curve = Curve(n, np.array([[hours(run, kind == "exact", count) for count in n]]))
            panel.curves.append((f"{NAMES[config['activation']]}, {kind}", curve))
    for panel in panels.values():
        for kind, known in PAPER.items():
            curve = Curve(np.array(list(known)), np.array([list(known.values())]))
            panel.curves.append((f"the paper's NTK, one A100, {kind}", curve))
    return power_laws(
        [list(panels.values())], "Hours of the exact kernel and of features of Myrtle-5 by the number of images"
    )


CLAIM = (
    "The paper, on one A100: 151 hours for the exact kernel of 60,000 images and 1.4 for 16,384 features, 106 times less; 12 "
    "times less than the exact kernel of 20,000 images, which is about as accurate."
)
STUDY = Study("speedup", EXPERIMENTS["speedup"], CLAIM, draw, table, settings, compute)
