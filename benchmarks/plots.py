"""Plots of README and docs: two that are runs of their own, and those of experiments, from the files of benchmarks/results.

    python benchmarks/plots.py [FOLDER [NAME ...]]

readings.png  one network read three ways: its kernel between two inputs at every angle, and how the error of features and
              of finite networks falls with their number and their width, against other sketches
digits.png    test accuracy on handwritten digits against the number of features, with the exact kernel's
others        what OF_RESULTS names
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits

import widelimit as wl
from widelimit import linear, sketch
from widelimit.reproduce import load_study
from widelimit.reproduce.results import read_runs
from widelimit.reproduce.study import Study, save_figure

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results"
SEEDS = 5
COLORS = {"features": "#1f5fa8", "plain": "#d98c21", "poly": "#8a4a9e", "finite": "#3b8c4a", "exact": "#222222"}
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3}


def scaled_error(gram: np.ndarray, exact: np.ndarray) -> float:
    i, j = np.triu_indices(len(exact), 1)
    size = np.sqrt(np.diag(exact))
    return float(np.sqrt(np.mean(((gram - exact)[i, j] / size[i] / size[j]) ** 2)))


@mpl.rc_context(STYLE)
def readings(folder: Path) -> None:
    dense, d = wl.Dense(1.4, 0.1), 20
    net = wl.serial(dense, "gelu", dense, "gelu", wl.Dense(1.4, 0.1, width=1))
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")

    angles = np.linspace(0, np.pi, 41)
    x = np.zeros((41, d))
    x[:, 0], x[:, 1] = np.cos(angles), np.sin(angles)
    x *= d**0.5
    phi = net.feature_map(jax.random.key(0), (d,), 4096)(x)
    params = net.init(jax.random.key(1), (d,), width=1024)
    finite = np.asarray(net.empirical_kernel(params, x[:1].astype(np.float32), x.astype(np.float32), get="ntk"))[0]
    degrees = np.degrees(angles)
    left.plot(degrees, net.kernel(x[:1], x, get="ntk")[0], color=COLORS["exact"], label="exact kernel")
    left.plot(degrees, phi[0] @ phi.T, "o", ms=4, color=COLORS["features"], label="4096 features")
    left.plot(degrees, finite, "x", ms=5, color=COLORS["finite"], label="one network of width 1024")
    left.set(xlabel="angle between two inputs, degrees", ylabel="NTK", title="One network, read three ways")
    left.set_xticks(range(0, 181, 45))
    left.legend(frameon=False)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, d)) * rng.uniform(0.3, 3, size=(80, 1))
    exact = net.kernel(x, get="ntk")
    kinds = {
        "features": ("auto", "features (default)"),
        "plain": (sketch.RandomWeights(0), "plain random weights"),
        "poly": (sketch.PolySketch(8), "the paper's PolySketch"),
    }
    sizes = [256, 512, 1024, 2048, 4096, 8192]
    keys = jax.random.split(jax.random.key(2), SEEDS)
    for name, (kind, label) in kinds.items():
        errors = []
        for size in sizes:
            maps = [net.feature_map(key, (d,), size, sketch=kind)(x.astype(np.float32)) for key in keys]
            errors.append([scaled_error(f.astype(np.float64) @ f.T.astype(np.float64), exact) for f in maps])
            jax.clear_caches()
        draw(right, sizes, errors, COLORS[name], label)
    widths = [64, 128, 256, 512]
    errors = []
    for width in widths:
        grams = [
            np.asarray(net.empirical_kernel(net.init(key, (d,), width=width), x.astype(np.float32), get="ntk"))
            for key in keys
        ]
        errors.append([scaled_error(gram, exact) for gram in grams])
    draw(right, widths, errors, COLORS["finite"], "finite network, by width")
    right.set(xscale="log", yscale="log", xlabel="features, or width", ylabel="error of the NTK")
    right.set_title(f"Four times as many, half the error ({SEEDS} seeds)")
    right.set_xticks([64, 256, 1024, 4096], ["64", "256", "1024", "4096"])
    right.minorticks_off()
    right.legend(frameon=False, fontsize=9)
    fig.savefig(folder / "readings.png", dpi=150)


def draw(axis: plt.Axes, sizes: list[int], values: list[list[float]], color: str, label: str) -> None:
    mean, low, high = np.mean(values, 1), np.min(values, 1), np.max(values, 1)
    axis.plot(sizes, mean, "o-", ms=4, color=color, label=label)
    axis.fill_between(sizes, low, high, color=color, alpha=0.15, lw=0)
    print(label, dict(zip(sizes, np.round(mean, 4).tolist(), strict=True)), flush=True)


@mpl.rc_context(STYLE)
def digits(folder: Path) -> None:
    x, y = load_digits(return_X_y=True)
    x = (x - 8) / 8
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1200], order[1200:]
    targets = np.eye(10)[y] - 0.1
    fig, axis = plt.subplots(figsize=(6, 3.9), layout="constrained")
    sizes = [128, 256, 512, 1024, 2048, 4096]
    for depth, color in ((1, COLORS["features"]), (3, COLORS["plain"])):
        net, accuracy = wl.nets.fully_connected(depth, "relu", 1.4, 0.1), []
        for size in sizes:
            found = []
            for key in jax.random.split(jax.random.key(0), SEEDS):
                phi = net.feature_map(key, (64,), size)
                f = phi(x)
                state = linear.update(None, f[train], targets[train])
                path = linear.solve(state, 10.0 ** np.arange(-4, 3))
                found.append(100 * np.mean(np.argmax(f[test] @ path.best, 1) == y[test]))
            accuracy.append(found)
            jax.clear_caches()
        draw(axis, sizes, accuracy, color, f"depth {depth}")
        K = net.kernel(x, get="ntk")
        weights = np.linalg.solve(K[np.ix_(train, train)] + 1e-2 * np.eye(len(train)), targets[train])
        exact = 100 * np.mean(np.argmax(K[np.ix_(test, train)] @ weights, 1) == y[test])
        axis.axhline(exact, color=color, ls="--", lw=1)
        print(f"depth {depth}, exact: {exact:.2f}")
    axis.set(xscale="log", xlabel="features", ylabel="test accuracy, %")
    axis.set_title("Digits: accuracy against features; dashed: exact kernel", fontsize=10)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    axis.legend(frameon=False)
    fig.savefig(folder / "digits.png", dpi=150)


def of_results(folder: Path, name: str) -> None:
    save_figure(*finished(name), folder / f"{name}.png")


def finished(name: str) -> tuple[Study, list[dict[str, Any]]]:
    """The experiment and the runs of a figure of the docs."""
    runs = [run for file in OF_RESULTS[name] for run in read_runs(RESULTS / f"{file}.json")]
    return load_study(runs[0]["experiment"]), runs


OF_RESULTS = {  # figures, and the files of their runs
    "abrelu": ["abrelu-cpu"], "abrelu-h200": ["abrelu-h200"], "activations-cifar10": ["activations-cpu"],
    "cifar10": ["cifar10-h200"], "dual-kernel": ["dual-kernel-cpu"], "embedding": ["embedding-cpu"],
    "quadrature": ["quadrature-cpu"], "speedup": ["speedup-cpu", "speedup-h200"], "tabular": ["tabular-cpu"],
    "widths": ["widths-cpu"], "widths-h200": ["widths-h200"],
}  # fmt: skip
PLOTS = {"readings": readings, "digits": digits} | {name: partial(of_results, name=name) for name in OF_RESULTS}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/images"))
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(PLOTS))
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in PLOTS]:
        parser.error(f"there is no plot {', '.join(unknown)}; there are {', '.join(PLOTS)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or PLOTS:
        PLOTS[name](given.folder)
