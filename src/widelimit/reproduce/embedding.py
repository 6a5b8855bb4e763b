"""Theorems 4 and 5 of the paper: how many features a kernel matrix needs, and what they cost for images.

Theorem 4. With s = tr K (K + l)^-1, the statistical dimension of an n x n kernel matrix K with a penalty l, features F of some
m ~ s / e^2 columns have

    (1 - e) (K + l)  <=  F F^T + l  <=  (1 + e) (K + l).

For chosen s, hence l, the least such e is measured for several m: it should go as sqrt(s / m).

Theorem 5. The features of an image take time linear in its pixels; the exact kernel of two images takes time quadratic in them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy import optimize, stats

from .. import nets
from ..sketches import PolySketch, RandomWeights, Sketch
from . import EXPERIMENTS
from .labels import differs, sides
from .study import Run, Study
from .timing import exact_and_sketch_seconds

if TYPE_CHECKING:
    from .plots import Laws

SKETCHES: dict[str, str | Sketch] = {"default": "auto", "PolySketch": PolySketch(8), "random weights": RandomWeights(0)}
SCALES = {"relu": 2**0.5, "exp_normalized": 1.0}  # of weights, so that variances stay as they are
NAMES = {"relu": "ReLU", "exp_normalized": "normalised Gaussian"}
DIMENSION = 16  # numbers in a row
DRAWN_DIMENSION = 16  # the statistical dimension that is drawn against m, and in the table
ROOM = 32  # columns for each statistical dimension from which on exponents are fitted
DEPTHS = 1, 2, 3  # activations
SPECTRAL, TIMES = "spectral error", "time"


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every kernel and sketch, with all numbers of columns, and one for every size of images."""
    rows, keys, kernels = (1000, 8, ("nngp", "ntk")) if full else (256, 4, ("ntk",))
    columns = [2**power for power in (range(6, 14) if full else (7, 9, 11))]
    spectral = [
        {
            "part": SPECTRAL, "activation": name, "depth": depth, "kernel": get, "sketch": kind, "columns": columns,
            "rows": rows, "keys": keys, "dimensions": [4, 16, 64], "seed": 0,
        }
        for name, depth, get, kind in product(NAMES, DEPTHS, kernels, SKETCHES)
    ]  # fmt: skip
    images = {8: (48, 64), 16: (16, 32), 24: (9, 24), 32: (6, 16)}
    images |= {48: (3, 12), 64: (2, 8)} if full else {}
    times = [
        {
            "part": TIMES, "activation": "exp_normalized", "kernel": "ntk", "side": side,
            "columns": 4096 if full else 512, "dtype": "float32", "exact images": exact, "images": sketched,
            "seed": 0,
        }
        for side, (exact, sketched) in images.items()
    ]  # fmt: skip
    return [*spectral, *times]


def compute(config: dict[str, Any]) -> dict[str, Any]:
    """Spectral errors, or the times of exact kernels and of features."""
    if config["part"] == SPECTRAL:
        return spectral_errors(config)
    return exact_and_sketch_seconds(config, (config["side"], config["side"], 3))


def spectral_errors(config: dict[str, Any]) -> dict[str, Any]:
    """e of Theorem 4, (keys, columns, dimensions), and the penalties that give the dimensions."""
    name = config["activation"]
    net = nets.fully_connected(config["depth"], name, SCALES[name])
    x = np.random.default_rng(config["seed"]).normal(size=(config["rows"], DIMENSION))
    values, vectors = np.linalg.eigh(net.kernel(x, get=config["kernel"]))
    penalties = [penalty(values, dimension) for dimension in config["dimensions"]]
    kind, rows, errors = SKETCHES[config["sketch"]], x.astype(np.float32), []
    with fast_compilation():
        for key in jax.random.split(jax.random.key(config["seed"]), config["keys"]):
            maps = (net.feature_map(key, (DIMENSION,), m, config["kernel"], kind) for m in config["columns"])
            rotated = [vectors.T @ phi(rows).astype(np.float64) for phi in maps]
            errors.append([[spectral_error(f, values, shift) for shift in penalties] for f in rotated])
    return {"penalties": penalties, "errors": errors}


@contextmanager
def fast_compilation() -> Iterator[None]:
    """Compile programs in a third of the time, for many that run a few times each; they run slower."""
    flag = "jax_disable_most_optimizations"
    before = jax.config.values[flag]
    jax.config.update(flag, True)
    try:
        yield
    finally:
        jax.config.update(flag, before)


def penalty(values: np.ndarray, dimension: float) -> float:
    """The l with sum of v / (v + l) = dimension."""
    values = np.maximum(values, 0)

    def excess(log: float) -> float:
        return float(np.sum(values / (values + np.exp(log))) - dimension)

    middle = np.log(values[-1])
    return float(np.exp(optimize.brentq(excess, middle - 50, middle + 50, xtol=1e-14)))


def spectral_error(features: np.ndarray, values: np.ndarray, shift: float) -> float:
    """The largest |eigenvalue| of (K + l)^-1/2 (F F^T + l) (K + l)^-1/2 - 1, where K = diag(values)."""
    scaled = features / np.sqrt(np.maximum(values, 0) + shift)[:, None]
    matrix = scaled @ scaled.T
    matrix[np.diag_indices(len(values))] += shift / (np.maximum(values, 0) + shift) - 1
    return float(np.abs(np.linalg.eigvalsh(matrix)).max())


def enough_columns(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All m and s with m >= ROOM s, and e, (keys, points). With fewer columns e is about s / m, above 1."""
    config = run["config"]
    m, s = np.meshgrid(config["columns"], config["dimensions"], indexing="ij")
    enough = m >= ROOM * s
    return m[enough], s[enough], np.array(run["errors"])[:, enough]


def exponents(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Powers of m and of s that fit e where columns are enough, and half of their 95 % intervals, from a fit for each key."""
    m, s, errors = enough_columns(run)
    design = np.stack([np.ones(len(m)), np.log(m), np.log(s)], -1)
    fits = np.linalg.lstsq(design, np.log(errors).T)[0][1:]
    return fits.mean(1), _half_interval(fits.std(1, ddof=1) / len(errors) ** 0.5, len(errors) - 1)


def constants(run: Run) -> dict[int, float]:
    """For every s the least C with e <= C sqrt(s / m) for every key and m, where columns are enough."""
    m, s, errors = enough_columns(run)
    return {int(own): float(np.max((errors * np.sqrt(m / s))[:, s == own])) for own in np.unique(s)}


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The power of x that fits y, and half of its 95 % interval; not a number where points are too few."""
    if len(x) < 2:
        return float("nan"), float("nan")
    fit = stats.linregress(np.log(x), np.log(y))
    return float(fit.slope), _half_interval(fit.stderr, len(x) - 2) if len(x) > 2 else float("nan")


def _half_interval(error: Any, freedom: int) -> Any:
    """Half of the 95 % interval by Student's t."""
    return stats.t.ppf(0.975, freedom) * error


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every exponent with its 95 % interval, the value at the largest size, and the C of e <= C sqrt(s / m) for each s."""
    spectral = [row for run in runs if run["config"]["part"] == SPECTRAL for row in _spectral_rows(run)]
    times = [
        _row_of_times(name, theorem, group)
        for name, theorem in (("seconds a pair", 2.0), ("seconds an image", 1.0))
        for group in _groups_of_times(runs)
    ]
    return spectral + times


def _spectral_rows(run: Run) -> list[dict[str, Any]]:
    config = run["config"]
    largest = float(np.mean(run["errors"], axis=0)[-1, config["dimensions"].index(DRAWN_DIMENSION)])
    network = f"depth {config['depth']}, {label(config)}"
    where = {
        "where": f"m = {config['columns'][-1]}, s = {DRAWN_DIMENSION}", "value": largest,
        "C": ", ".join(f"{c:.2g}" for c in constants(run).values()),
    }  # fmt: skip
    return [
        _row(SPECTRAL, config, network, config["sketch"], base, power, error, theorem) | where
        for base, theorem, power, error in zip(("m", "s"), (-0.5, 0.5), *exponents(run), strict=True)
    ]


def _row_of_times(name: str, theorem: float, group: Sequence[Run]) -> dict[str, Any]:
    pixels = [run["config"]["side"] ** 2 for run in group]
    power, error = slope(pixels, [run[name] for run in group])
    last, config = group[-1], group[-1]["config"]
    kind = "exact" if name == "seconds a pair" else f"default, {config['columns']} columns"
    row = _row(name, config, f"Myrtle-5, {last['device']}", kind, "pixels", power, error, theorem)
    return row | {"where": f"{sides(config['side'], config['side'])} pixels", "value": last[name], "C": ""}


def _row(
    quantity: str,
    config: dict[str, Any],
    network: str,
    kind: str,
    base: str,
    power: float,
    error: float,
    theorem: float,
) -> dict[str, Any]:
    return {
        "of": quantity, "activation": NAMES[config["activation"]], "network": network, "kernel": config["kernel"],
        "sketch": kind, "power of": base, "exponent": float(power), "95 %, ±": float(error), "theorem": theorem,
    }  # fmt: skip


def label(config: dict[str, Any]) -> str:
    """The number of rows."""
    return f"{config['rows']} rows"


def _groups_of_times(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of times by pixels, a list for each number of columns and device."""
    groups: dict[tuple[int, str], list[Run]] = {}
    for run in runs:
        if run["config"]["part"] == TIMES:
            groups.setdefault((run["config"]["columns"], run["device"]), []).append(run)
    return [sorted(group, key=lambda run: run["config"]["side"]) for group in groups.values()]


def draw(runs: Sequence[Run]) -> Any:
    """e against m, a row for each activation and kernel and a panel for each depth; below, e against s / m, and times."""
    from .plots import Curve, Laws, power_laws

    spectral = [run for run in runs if run["config"]["part"] == SPECTRAL]
    several = differs([label(run["config"]) for run in spectral])
    by_size: dict[str, list[Run]] = {}
    for run in spectral:
        by_size.setdefault(f", {label(run['config'])}" if several else "", []).append(run)
    rows: dict[tuple[str, str], dict[int, Laws]] = {}
    for run in spectral:
        config = run["config"]
        kernel = config["kernel"].upper() + (f", {label(config)}" if several else "")
        title = f"{NAMES[config['activation']]}, depth {config['depth']}, {kernel}"
        empty = Laws(title, "columns m", f"ε where s = {DRAWN_DIMENSION}", [], {"m^(-1/2)": -0.5})
        panel = rows.setdefault((config["activation"], kernel), {}).setdefault(config["depth"], empty)
        errors = np.array(run["errors"])[:, :, config["dimensions"].index(DRAWN_DIMENSION)]
        panel.curves.append((config["sketch"], Curve(np.array(config["columns"]), errors)))
    last = []
    for kind, (size, own) in product(SKETCHES, by_size.items()):
        curves = [
            (f"s = {s}", Curve(s / np.array(run["config"]["columns"]), np.array(run["errors"])[:, :, i]))
            for run in own
            if run["config"]["sketch"] == kind
            for i, s in enumerate(run["config"]["dimensions"])
        ]
        last += [Laws(f"{kind}: every kernel{size}", "s / m", "ε", curves, {"(s / m)^(1/2)": 0.5})] if curves else []
    last += [_laws_of_times(group) for group in _groups_of_times(runs)]
    return power_laws(
        [*(list(row.values()) for row in rows.values()), last],
        "Error of features against their number and the statistical dimension s, and time against pixels",
    )


def _laws_of_times(group: Sequence[Run]) -> "Laws":
    from .plots import Curve, Laws

    pixels = np.array([run["config"]["side"] ** 2 for run in group])
    curves = [
        (legend, Curve(pixels, np.array([[run[name] for run in group]])))
        for legend, name in (("exact, a pair", "seconds a pair"), ("features, an image", "seconds an image"))
    ]
    title = f"Myrtle-5, {group[0]['config']['columns']} columns, {group[0]['device']}"
    return Laws(title, "pixels", "seconds", curves, {"pixels^2": 2.0, "pixels": 1.0})


CLAIM = (
    "The paper: m ~ s / ε² columns keep the spectrum of K + λ within 1 ± ε, s being the statistical dimension of K; features "
    "of images take time linear in the pixels, exact kernels quadratic."
)
STUDY = Study("embedding", EXPERIMENTS["embedding"], CLAIM, draw, table, settings, compute)
