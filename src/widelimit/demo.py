"""Handwritten digits with infinitely wide networks: `python -m widelimit.demo`.

For each of ten activations the exact NNGP and NTK of a network with two hidden layers, kernel ridge regression with
both, and a table of how well they read digits they have not seen. The ridge penalty is chosen by leave-one-out error
on the training rows; the test rows serve for the final score alone. `dual-activations.png` shows the functions that
make these kernels differ.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from itertools import cycle, product
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import widelimit as wl
from widelimit.activations import CATALOGUE

PLOT = "dual-activations.png"
PENALTIES = np.logspace(-6, 0, 13)  # as shares of the kernel's mean diagonal
_CLASSES = 10
_HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000")  # of Okabe and Ito (2008), told apart by all eyes
_DASHES = ("-", (0, (4, 1.5)))
_COSINES = np.cos(np.linspace(0, np.pi, 301), dtype=np.float32)  # from 1 down, dense at the ends: kinks are steep there

Matrix = Float[np.ndarray, "rows columns"]
Vector = Float[np.ndarray, " entries"]
Labels = Int[np.ndarray, " rows"]


def bent_identity(t):
    """(sqrt(t^2 + 1) - 1) / 2 + t: slope 1/2 far on the left and 3/2 far on the right."""
    return (jnp.sqrt(t**2 + 1) - 1) / 2 + t


ACTIVATIONS: dict[str, wl.Activation] = {
    **{n: CATALOGUE[n] for n in ("relu", "abrelu", "exp_normalized", "gelu", "erf", "sin", "tanh", "elu", "gaussian")},
    "bent_identity": wl.Elementwise(bent_identity, kinks=()),
}


class Digits(NamedTuple):
    """Images as rows of 64 pixels, with their labels."""

    train: Matrix
    train_labels: Labels
    test: Matrix
    test_labels: Labels


class Score(NamedTuple):
    """The test accuracies of one activation and the seconds its kernels took."""

    nngp: float
    ntk: float
    seconds: float


class Curves(NamedTuple):
    """A dual and a slope dual along `_COSINES`."""

    dual: Vector
    slope: Vector


class Results(NamedTuple):
    """What `run` found and where it drew it."""

    scores: dict[str, Score]
    baselines: dict[str, float]
    plot: Path


def digits(train_rows: int) -> Digits:
    """Scikit-learn's digits, every row scaled to norm sqrt(64), in a fixed stratified split."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels / 16
    pixels *= np.sqrt(pixels.shape[1]) / np.linalg.norm(pixels, axis=1, keepdims=True)
    train, test, train_labels, test_labels = train_test_split(
        pixels, labels, train_size=train_rows, stratify=labels, random_state=0
    )
    return Digits(train, train_labels, test, test_labels)


def leave_one_out(values: Vector, vectors: Matrix, targets: Matrix, penalty: float) -> Matrix:
    """For each row, target minus prediction of the kernel ridge regression fitted to all other rows.

    It is (G targets)_i / G_ii with G = (K + penalty I)^-1, and `values` and `vectors` are the eigenvalues and -vectors
    of K: one decomposition serves every penalty.
    """
    inverse = 1 / (values + penalty)
    coefficients = vectors @ (inverse[:, None] * (vectors.T @ targets))
    return coefficients / (vectors**2 @ inverse)[:, None]


def ridge_coefficients(kernel: Matrix, targets: Matrix) -> Matrix:
    """(K + penalty I)^-1 targets for the penalty of least squared leave-one-out error."""
    values, vectors = np.linalg.eigh(kernel.astype(np.float64))
    values = np.maximum(values, 0)  # a kernel rounded to float32 may dip below
    penalties = PENALTIES * kernel.diagonal().mean(dtype=np.float64)
    errors = [np.mean(leave_one_out(values, vectors, targets, penalty) ** 2) for penalty in penalties]
    penalty = penalties[np.argmin(errors)]
    return vectors @ ((vectors.T @ targets) / (values + penalty)[:, None])


def ridge_accuracy(kernel: Matrix, data: Digits) -> float:
    """The share of test digits read rightly, from the kernel of all rows, those for training first, with the latter."""
    rows = len(data.train)
    targets = np.eye(_CLASSES)[data.train_labels] - 1 / _CLASSES
    predictions = kernel[rows:] @ ridge_coefficients(kernel[:rows], targets)
    return float(np.mean(predictions.argmax(1) == data.test_labels))


def score(activation: wl.Activation, data: Digits) -> Score:
    """The test accuracies of a network with two hidden layers of this activation."""
    net = wl.nets.fully_connected(2, activation, W_std=1.5, b_std=0.1)
    rows = np.concatenate([data.train, data.test]).astype(np.float32)
    start = time.perf_counter()
    # One call for train x train and test x train: compilation, the greater part of the time, happens once.
    kernels = net.kernel(rows, rows[: len(data.train)])
    seconds = time.perf_counter() - start
    return Score(ridge_accuracy(kernels.nngp, data), ridge_accuracy(kernels.ntk, data), seconds)


def baseline_scores(data: Digits) -> dict[str, float]:
    """The test accuracies of scikit-learn's classifiers on the same rows."""
    classifiers = {"RBF SVM": SVC(), "logistic regression": LogisticRegression(max_iter=1000)}
    return {
        name: float(classifier.fit(data.train, data.train_labels).score(data.test, data.test_labels))
        for name, classifier in classifiers.items()
    }


def dual_curves(activation: wl.Activation) -> Curves:
    """The dual and the slope dual of an activation for inputs of norm 1, as shares of their values at cosine 1."""
    dual, slope = (np.asarray(k(activation, 1.0, 1.0, _COSINES)) for k in (wl.dual, wl.dual_slope))
    return Curves(dual / dual[0], slope / slope[0])


def draw(curves: Mapping[str, Curves]) -> Figure:
    """The duals of several activations on the left, those of their slopes on the right."""
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for (name, (dual, slope)), (dash, hue) in zip(curves.items(), cycle(product(_DASHES, _HUES)), strict=False):
        left.plot(_COSINES, dual, color=hue, linestyle=dash, linewidth=1.8, label=name)
        right.plot(_COSINES, slope, color=hue, linestyle=dash, linewidth=1.8)
    _label(left, "Dual: the covariance after one layer", "k(1, 1, c) / k(1, 1, 1)")
    _label(right, "Slope dual: the factor of the NTK", "k'(1, 1, c) / k'(1, 1, 1)")
    figure.suptitle("What an activation makes of the cosine of two inputs")
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    return figure


def _label(panel: Axes, title: str, ylabel: str) -> None:
    panel.set(title=title, xlabel="cosine c", ylabel=ylabel, xlim=(-1, 1))
    panel.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def table(results: Results, data: Digits) -> Table:
    """The accuracies, best NTK first, and the baselines under them."""
    best = max(accuracy for accuracies in results.scores.values() for accuracy in accuracies[:2])
    error = np.sqrt(best * (1 - best) / len(data.test))
    table = Table(
        title=f"Test accuracy on {len(data.test)} digits, {len(data.train)} to learn from",
        caption="Kernel seconds: both kernels of all rows with the training rows, compilation included. "
        f"One standard error of an accuracy is about {error:.1%}; differences of that size mean little.",
    )
    table.add_column("activation")
    for heading in ("NNGP", "NTK", "baseline", "kernel seconds"):
        table.add_column(heading, justify="right")
    for name, (nngp, ntk, seconds) in sorted(results.scores.items(), key=lambda item: (-item[1].ntk, -item[1].nngp)):
        table.add_row(name, f"{nngp:.2%}", f"{ntk:.2%}", "", f"{seconds:.1f}")
    table.add_section()
    for name, accuracy in results.baselines.items():
        table.add_row(name, "", "", f"{accuracy:.2%}", "")
    return table


def run(
    folder: Path,
    activations: Mapping[str, wl.Activation] = ACTIVATIONS,
    train_rows: int = 1000,
    console: Console | None = None,
) -> Results:
    """Draw the duals into an existing folder, score every activation and print the table."""
    console = console or Console()
    data = digits(train_rows)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # On a busy machine the threads of BLAS wait for each other: a decomposition of 0.3 s then takes up to 10.
    with threadpool_limits(1, "blas"), Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=2 * len(activations) + 1)

        def each(what: str):
            for name, activation in activations.items():
                progress.update(task, description=f"{what} of {name}")
                yield name, activation
                progress.advance(task)

        plot = folder / PLOT
        draw({name: dual_curves(activation) for name, activation in each("duals")}).savefig(plot, dpi=150)
        scores = {name: score(activation, data) for name, activation in each("kernels")}
        progress.update(task, description="baselines")
        results = Results(scores, baseline_scores(data), plot)
    console.print(table(results, data))
    console.print(f"The dual activations are drawn in {plot}", soft_wrap=True, highlight=False)
    return results


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m widelimit.demo", description="Digits with infinitely wide networks."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), metavar="FOLDER", help="where to write the plot"
    )
    folder = parser.parse_args(argv).out
    try:
        folder.mkdir(parents=True, exist_ok=True)
        run(folder)
    except OSError as error:
        sys.exit(f"Cannot write to the folder {str(folder)!r}: {error.strerror}. Choose another with --out FOLDER.")


if __name__ == "__main__":
    main()
