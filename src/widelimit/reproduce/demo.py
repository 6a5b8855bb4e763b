"""Handwritten digits with infinitely wide networks, exact and sketched: `python -m widelimit.demo`.

First scikit-learn's digits, as they are: the exact NTK, its random features, and three usual classifiers. Then the same
digits, shifted and turned at random, in growing numbers: the exact kernel's time grows with the cube of the rows, that of
features in proportion to them, and the number of rows at which they meet is found. Every method gets images of one length and
chooses its penalty on training rows; test rows serve for the final score alone.

Two tables are printed; `digits.png`, `growth.png` and `results.json` are written into a folder.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullFormatter, PercentFormatter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from scipy.ndimage import map_coordinates
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import widelimit as wl

from ..datasets import bundled
from ..estimators import NeuralKernelClassifier, SketchedRidgeClassifier
from ..storage.files import atomic_file
from .plots import saved

SIZES = (1000, 1500, 2500, 3000, 10_000, 50_000)
EXACT_ROWS = 3000  # the largest size at which the exact kernel is measured
FEATURES = 2048
DEPTH = 3  # hidden layers
TRAIN_ROWS = 1000
SHIFT, TURN = 1.0, 20.0  # pixels and degrees, at most
SEED = 0
EXACT, SKETCHED = "exact NTK", "sketched NTK"
_SIDE = 8
_WARM = 4096  # rows, at most, that compile all that more rows need
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# of Okabe and Ito (2008), told apart by all eyes
_HUES = {EXACT: "#d55e00", SKETCHED: "#0072b2"}
_GREY = "#555555"

Matrix = Float[np.ndarray, "rows columns"]
Labels = Int[np.ndarray, " rows"]


class Digits(NamedTuple):
    """Images as rows of 64 pixels, with their labels."""

    train: Matrix
    train_labels: Labels
    test: Matrix
    test_labels: Labels


class Accuracy(NamedTuple):
    """The share of test digits read rightly, and its standard error."""

    share: float
    error: float

    def __str__(self) -> str:
        """As percentages."""
        return f"{100 * self.share:.1f} ± {100 * self.error:.1f} %"


class Score(NamedTuple):
    """How one method does: seconds to choose its penalty, fit and predict, without and with compilation."""

    accuracy: Accuracy
    seconds: float
    first: float


class Step(NamedTuple):
    """A fit on so many rows, compiled before; `kernel` is the part of the seconds that the exact kernel took."""

    rows: int
    seconds: float
    accuracy: Accuracy
    kernel: float = 0.0


class Crossing(NamedTuple):
    """From how many rows on the sketch is faster, and whether a projection was needed to know."""

    rows: float
    projected: bool


class Results(NamedTuple):
    """What `run` found, and the files it wrote."""

    scores: dict[str, Score]
    exact: list[Step]
    sketched: list[Step]
    crossing: Crossing | None
    files: list[Path]


def digits(train_rows: int) -> Digits:
    """Scikit-learn's digits in a fixed stratified split."""
    found = bundled("digits")
    train, test, train_labels, test_labels = train_test_split(
        found.x, found.y, train_size=train_rows, stratify=found.y, random_state=SEED
    )
    return Digits(train, train_labels, test, test_labels)


def scaled(data: Digits) -> Digits:
    """Every image with a mean square of 1."""
    train, test = (x / np.sqrt(np.mean(x**2, axis=1, keepdims=True).clip(min=1e-300)) for x in (data.train, data.test))
    return data._replace(train=train, test=test)


def moved(x: Matrix, seed: int) -> Matrix:
    """Images shifted and turned at random, by at most `SHIFT` and `TURN`."""
    rng = np.random.default_rng(seed)
    down, right = rng.uniform(-SHIFT, SHIFT, (2, len(x), 1, 1))
    angle = np.deg2rad(rng.uniform(-TURN, TURN, (len(x), 1, 1)))
    middle = (_SIDE - 1) / 2
    i, j = np.mgrid[:_SIDE, :_SIDE] - middle
    rows = np.cos(angle) * i - np.sin(angle) * j + middle + down
    columns = np.sin(angle) * i + np.cos(angle) * j + middle + right
    image = np.broadcast_to(np.arange(len(x))[:, None, None], rows.shape)
    found = map_coordinates(x.reshape(-1, _SIDE, _SIDE), [image, rows, columns], order=1)
    return found.reshape(len(x), -1)


def grown(data: Digits, rows: int) -> Digits:
    """So many training rows, each a training digit that was moved; test digits are moved too, each once."""
    source = np.arange(rows) % len(data.train)
    return Digits(
        moved(data.train[source], SEED + 1), data.train_labels[source], moved(data.test, SEED + 2), data.test_labels
    )


def accuracy_of(right: np.ndarray) -> Accuracy:
    """Of whether each digit was read rightly."""
    share = float(np.mean(right))
    return Accuracy(share, float(np.sqrt(share * (1 - share) / len(right))))


def methods(features: int, depth: int) -> dict[str, Any]:
    """The classifiers, each of which chooses its penalty on the rows it is fitted to."""
    return {
        EXACT: NeuralKernelClassifier(depth=depth),
        SKETCHED: SketchedRidgeClassifier(depth=depth, n_components=features, random_state=SEED),
        "RBF SVM": GridSearchCV(SVC(), {"C": [1.0, 10.0, 100.0]}, cv=5),
        "random forest": RandomForestClassifier(300, random_state=SEED),
        "logistic regression": GridSearchCV(LogisticRegression(max_iter=5000), {"C": [0.001, 0.01, 0.1, 1.0]}, cv=5),
    }


def score(name: str, classifier: Any, data: Digits) -> Score:
    """Fit and predict; what is compiled is timed twice, the second time without compilation."""
    seconds = []
    for _ in range(2 if name in (EXACT, SKETCHED) else 1):
        start = time.perf_counter()
        predicted = classifier.fit(data.train, data.train_labels).predict(data.test)
        seconds.append(time.perf_counter() - start)
    return Score(accuracy_of(predicted == data.test_labels), seconds[-1], seconds[0])


def step(classifier: Any, data: Digits, rows: int) -> Step:
    """Fit a classifier that was fitted before on the first rows, and ask how much of that time the exact kernel takes."""
    x, labels = data.train[:rows], data.train_labels[:rows]
    is_exact = isinstance(classifier, NeuralKernelClassifier)
    _ = classifier.net_.kernel(x, get="ntk") if is_exact else classifier.map_(x[:_WARM])  # compiles
    start = time.perf_counter()
    classifier.fit(x, labels)
    seconds = time.perf_counter() - start
    kernel = 0.0
    if is_exact:
        start = time.perf_counter()
        classifier.net_.kernel(x, get="ntk")
        kernel = min(time.perf_counter() - start, seconds)
    return Step(rows, seconds, accuracy_of(classifier.predict(data.test) == data.test_labels), kernel)


def projected(measured: Sequence[Step], rows: float) -> float:
    """Seconds of the exact kernel for more rows, from the largest fit: n^2 for the kernel, n^3 for the rest."""
    last = measured[-1]
    ratio = rows / last.rows
    return last.kernel * ratio**2 + (last.seconds - last.kernel) * ratio**3


def crossover(exact: Sequence[Step], sketched: Sequence[Step]) -> Crossing | None:
    """Where the lines through the measured, then projected, seconds meet for the last time; logarithms are interpolated.

    The smallest size, if the sketch is faster from there on; None, if it is slower at the largest.
    """
    sizes = [s.rows for s in sketched]
    known = {s.rows: s.seconds for s in exact}
    gains = [np.log(known.get(s.rows, projected(exact, s.rows)) / s.seconds) for s in sketched]
    slower = [i for i, gain in enumerate(gains) if gain <= 0]
    if not slower:
        return Crossing(sizes[0], False)
    i = slower[-1]
    if i == len(sizes) - 1:
        return None
    share = -gains[i] / (gains[i + 1] - gains[i])
    return Crossing(float(sizes[i] * (sizes[i + 1] / sizes[i]) ** share), sizes[i + 1] not in known)


def spoken(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    for limit, unit, name in ((2 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / _DAY:.0f} days"


def crossing_spoken(crossing: Crossing | None, sketched: Sequence[Step]) -> str:
    """One sentence."""
    if crossing is None:
        return f"Up to {sketched[-1].rows:,} rows, the exact kernel is faster."
    if crossing.rows == sketched[0].rows:
        return f"The sketch is faster from {sketched[0].rows:,} rows on, or fewer."
    how = " as projected" if crossing.projected else ""
    return f"The sketch is faster from about {round(crossing.rows, -2):,.0f} rows on{how}."


def scores_table(scores: dict[str, Score], data: Digits, features: int) -> Table:
    """The five methods, best first."""
    table = Table(
        title=f"{len(data.test):,} handwritten digits, {len(data.train):,} to learn from",
        caption=f"Seconds: choice of the penalty on the training rows, fit and prediction; linear algebra on one thread. "
        f"Compilation, once in a process, is apart. ±: one standard error. The sketch has {features:,} features.",
    )
    table.add_column("method")
    for heading in ("test accuracy", "seconds", "compilation, seconds"):
        table.add_column(heading, justify="right")
    for name, (accuracy, seconds, first) in sorted(scores.items(), key=lambda item: -item[1].accuracy.share):
        table.add_row(name, str(accuracy), f"{seconds:.2f}", f"{first - seconds:.1f}" if first > seconds else "")
    return table


def growth_table(exact: Sequence[Step], sketched: Sequence[Step], crossing: Crossing | None) -> Table:
    """One line for each size."""
    table = Table(
        title="The same digits shifted and turned at random: more rows",
        caption=f"Time of a fit, compiled before. {crossing_spoken(crossing, sketched)} (~: projected from "
        f"{exact[-1].rows:,} rows, the kernel by n², its solution by n³.)",
    )
    known = {s.rows: s for s in exact}
    table.add_column("rows", justify="right")
    for heading in (EXACT, SKETCHED, f"accuracy, {EXACT}", f"accuracy, {SKETCHED}"):
        table.add_column(heading, justify="right")
    for s in sketched:
        own = known.get(s.rows)
        seconds = f"~ {spoken(projected(exact, s.rows))}" if own is None else spoken(own.seconds)
        table.add_row(
            f"{s.rows:,}", seconds, spoken(s.seconds), "" if own is None else str(own.accuracy), str(s.accuracy)
        )
    return table


def _panel(panel: Axes, **labels: Any) -> None:
    panel.set(**labels)
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _figure(height: float, ratios: tuple[float, float]) -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(10, height), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=ratios)
    return figure, left, right


def draw_scores(scores: dict[str, Score], data: Digits) -> Figure:
    """Accuracy on the left, seconds on the right, a line for each method."""
    figure, left, right = _figure(3.6, (1, 1))
    ordered = sorted(scores.items(), key=lambda item: item[1].accuracy.share)
    for place, (name, (accuracy, seconds, first)) in enumerate(ordered):
        hue = _HUES.get(name, _GREY)
        left.errorbar(accuracy.share, place, xerr=accuracy.error, fmt="o", color=hue, capsize=4, markersize=8)
        note: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 9, "color": hue}
        left.annotate(f"{accuracy.share:.1%}", (accuracy.share, place), (0, 8), **note)
        right.plot(seconds, place, "o", color=hue, markersize=8)
        right.annotate(spoken(seconds), (seconds, place), (0, 8), **note)
        if first > seconds:
            right.plot([seconds, first], [place, place], color=hue, linewidth=1, zorder=0)
            right.plot(first, place, "o", color=hue, markersize=8, markerfacecolor="white")
            right.annotate(f"{spoken(first)} with compilation", (first, place), (0, 8), **note)
    for panel in (left, right):
        panel.set(ylim=(-0.5, len(ordered) - 0.3), yticks=range(len(ordered)))
    _panel(left, title="Accuracy, ± one standard error", yticklabels=[name for name, _ in ordered])
    left.xaxis.set_major_locator(MultipleLocator(0.01))
    left.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    left.margins(x=0.1)
    _panel(right, title="Time to choose a penalty, fit and predict", yticklabels=[], xscale="log")
    right.margins(x=0.3)
    right.xaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:g} s"))
    right.xaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(f"Reading {len(data.test):,} handwritten digits, {len(data.train):,} to learn from")
    return figure


def draw_growth(exact: Sequence[Step], sketched: Sequence[Step], crossing: Crossing | None) -> Figure:
    """Seconds against rows on the left, accuracy on the right."""
    figure, left, right = _figure(4.6, (1.25, 1))
    lines = (
        (EXACT, exact, "s", 0.98),
        (SKETCHED, sketched, "o", 1.02),
    )  # places side by side, where bars would overlap
    for name, steps, mark, aside in lines:
        rows, seconds = [s.rows for s in steps], [s.seconds for s in steps]
        left.plot(rows, seconds, mark, linestyle="-", color=_HUES[name], label=f"{name}, measured")
        right.errorbar(
            [aside * s.rows for s in steps], [s.accuracy.share for s in steps], [s.accuracy.error for s in steps],
            fmt=mark, linestyle="-", color=_HUES[name], capsize=3,
        )  # fmt: skip
    last, end = exact[-1].rows, sketched[-1].rows
    if end > last:
        ahead = np.geomspace(last, end, 50)
        times = [projected(exact, n) for n in ahead]
        left.plot(ahead, times, "--", color=_HUES[EXACT], label=f"{EXACT}, projected")
        note: dict[str, Any] = {"xytext": (-8, 3), "textcoords": "offset points", "ha": "right"}
        left.annotate(f"~ {spoken(times[-1])}", (end, times[-1]), color=_HUES[EXACT], va="center", **note)
        left.annotate(spoken(sketched[-1].seconds), (end, sketched[-1].seconds), color=_HUES[SKETCHED], **note)
    if crossing is not None:
        left.axvline(crossing.rows, color=_GREY, linestyle=":")
        left.annotate(
            f"sketch faster from\n{round(crossing.rows, -2):,.0f} rows on", (crossing.rows, 0.85),
            (6, 0), xycoords=("data", "axes fraction"), textcoords="offset points", ha="left", va="center", color=_GREY,
        )  # fmt: skip
    _panel(left, title="Seconds of a fit", xlabel="training rows", xscale="log", yscale="log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:,g}"))
    _panel(right, title="Test accuracy, ± one standard error", xlabel="training rows", xscale="log")
    right.yaxis.set_major_locator(MultipleLocator(0.02))
    right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for panel in (left, right):
        panel.set_xticks(
            [s.rows for s in sketched if s.rows in (1000, 2500, 10_000, 50_000)] or [sketched[0].rows, end]
        )
        panel.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Digits shifted and turned at random: time and accuracy as rows grow")
    return figure


def _settings() -> dict[str, Any]:
    packages = ("jax", "numpy", "scipy", "scikit-learn", "matplotlib")
    return {
        "versions": {
            "widelimit": wl.__version__, "python": platform.python_version(), **{p: version(p) for p in packages}
        },
        "seed": SEED, "cores": os.cpu_count(), "linear_algebra_threads": 1, "machine": platform.machine(),
        "shift_pixels": SHIFT, "turn_degrees": TURN,
    }  # fmt: skip


def _plain(found: Any) -> Any:
    """NamedTuples by the names of their fields, for JSON."""
    if hasattr(found, "_asdict"):
        return {k: _plain(v) for k, v in found._asdict().items()}
    if isinstance(found, dict):
        return {k: _plain(v) for k, v in found.items()}
    return [_plain(v) for v in found] if isinstance(found, list) else found


def _usable(folder: Path) -> None:
    """Make the folder, and see that it can be written to, before minutes of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(
            f"Cannot write to the folder {str(folder)!r}: {error.strerror}. Choose another with --out FOLDER."
        ) from None


def _write(folder: Path, drawn: dict[str, Figure], found: dict[str, Any]) -> list[Path]:
    for name, figure in drawn.items():
        saved(figure, folder / name, dpi=120)
    with atomic_file(folder / "results.json") as file:
        file.write((json.dumps(found, indent=1) + "\n").encode())
    return [*(folder / name for name in drawn), folder / "results.json"]


def run(
    folder: Path,
    sizes: Sequence[int] = SIZES,
    exact_rows: int = EXACT_ROWS,
    features: int = FEATURES,
    train_rows: int = TRAIN_ROWS,
    depth: int = DEPTH,
    console: Console | None = None,
) -> Results:
    """Measure both parts, print their tables, and write plots and results into the folder."""
    sizes = sorted(sizes)
    if not sizes or sizes[0] > exact_rows:
        raise ValueError(f"One of sizes, at least, is at most exact_rows={exact_rows}, and they are {sizes}.")
    _usable(folder)
    console = console or Console()
    plain = scaled(digits(train_rows))
    many = scaled(grown(digits(train_rows), sizes[-1]))
    few = [rows for rows in sizes if rows <= exact_rows]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # On a busy machine the threads of BLAS wait for each other: a decomposition of 0.6 s then takes 15.
    with threadpool_limits(1, "blas"), Progress(*columns, console=console, transient=True) as progress:
        tried = methods(features, depth)
        task = progress.add_task("", total=len(tried) + len(few) + len(sizes))

        def measured(what: str, work: Callable[..., Any], *arguments: Any) -> Any:
            progress.update(task, description=what)
            found = work(*arguments)
            progress.advance(task)
            return found

        scores = {name: measured(name, score, name, method, plain) for name, method in tried.items()}
        exact, sketched = (
            [measured(f"{name}, {rows:,} rows", step, tried[name], many, rows) for rows in chosen]
            for name, chosen in ((EXACT, few), (SKETCHED, sizes))
        )
    crossing = crossover(exact, sketched)
    console.print(scores_table(scores, plain, features))
    console.print(growth_table(exact, sketched, crossing))
    ahead = {str(s.rows): projected(exact, s.rows) for s in sketched if s.rows > exact[-1].rows}
    found = {
        **_settings(), "train_rows": train_rows, "features": features, "depth": depth,
        "digits": scores, "exact": exact, "sketched": sketched,
        "exact_projected_seconds": ahead, "crossover": crossing,
    }  # fmt: skip
    drawn = {"digits.png": draw_scores(scores, plain), "growth.png": draw_growth(exact, sketched, crossing)}
    files = _write(folder, drawn, _plain(found))
    console.print(f"Written: {', '.join(map(str, files))}", soft_wrap=True, highlight=False)
    return Results(scores, exact, sketched, crossing, files)


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m widelimit.demo", description="Digits with infinitely wide networks, exact and sketched."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), metavar="FOLDER", help="where to write plots and results"
    )
    try:
        run(parser.parse_args(argv).out)
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
