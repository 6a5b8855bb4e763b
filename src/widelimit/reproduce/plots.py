"""Plots, in colours told apart by all eyes (Okabe and Ito, 2008)."""

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter

from ..activations import Activation, dual, dual_slope
from ..storage.files import atomic_file

HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))


def saved(figure: Figure, path: Path, dpi: int = 150, origin: str | None = None) -> None:
    """Write a figure into a file, of the kind that its name ends with, and into its metadata what it is of."""
    kind = path.suffix[1:]
    metadata = {"Subject" if kind == "pdf" else "Description": origin} if origin else None
    with atomic_file(path) as file:
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)


def activation_curves(activations: Mapping[str, Activation], std: float = 1.0, degree: int = 8) -> Figure:
    """Duals, slopes and spectra of activations for inputs of one standard deviation, as shares of their values at cosine 1."""
    cosines = np.cos(np.linspace(0, np.pi, 301))  # from 1 down, dense at the ends: kinks are steep there
    rows = -(-len(activations) // 6)
    figure = Figure(figsize=(14, 4.6 + 0.25 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    styles = cycle(product(DASHES, HUES))
    degrees = np.arange(degree + 1)
    for (name, activation), (dash, hue) in zip(activations.items(), styles, strict=False):
        k = np.asarray(dual(activation, std, std, cosines))
        slope = np.asarray(dual_slope(activation, std, std, cosines))
        spectrum = np.asarray(activation.radial(np.float64(std), degree), np.float64).ravel() ** 2
        style = {"color": hue, "linestyle": dash, "linewidth": 1.8}
        left.plot(cosines, k / _scale(k[0]), **style, label=name)
        middle.plot(cosines, slope / _scale(slope[0]), **style)
        share = spectrum / _scale(k[0])
        seen = share > 1e-6
        right.plot(degrees[seen], share[seen], **style, marker="o", markersize=4)
    _label(left, "Dual: the covariance after one layer", "cosine c", "k(c) / k(1)")
    _label(middle, "Slope: the factor of the NTK", "cosine c", "k'(c) / k'(1)")
    _label(right, "Spectrum: the share of each degree", "degree", "share of k(1)")
    right.set_yscale("log")
    right.set_xticks(degrees if degree <= 16 else degrees[:: -(-degree // 16)])
    figure.suptitle(f"What activations make of the cosine of two inputs of standard deviation {std:g}")
    figure.legend(loc="outside lower center", ncols=min(len(activations), 7), frameon=False)
    return figure


class Curve(NamedTuple):
    """Errors of several trials, (trials, points), at places x."""

    x: np.ndarray
    errors: np.ndarray


def error_curves(panels: Mapping[tuple[str, str], Mapping[str, Curve]], title: str) -> Figure:
    """Errors on logarithmic axes: a panel for each (row, column), a hue for each kind; all but degrees are logarithmic too."""
    rows, columns = (list(dict.fromkeys(place[i] for place in panels)) for i in (0, 1))
    kinds = list(dict.fromkeys(kind for curves in panels.values() for kind in curves))
    figure = Figure(figsize=(2.6 * len(columns) + 1, 2.5 * len(rows) + 1), layout="constrained")
    FigureCanvasAgg(figure)
    grid, lines = figure.subplots(len(rows), len(columns), squeeze=False), {}
    leftmost = {row: min(columns.index(column) for own, column in panels if own == row) for row in rows}
    for (row, column), curves in panels.items():
        i, j = rows.index(row), columns.index(column)
        panel = grid[i, j]
        for kind, curve in curves.items():
            hue = HUES[kinds.index(kind)]
            (lines[kind],) = panel.plot(curve.x, np.maximum(curve.errors.mean(0), _LEAST), color=hue, marker=".")
            band = (np.clip(f(curve.errors, 0), _LEAST, None) for f in (np.min, np.max))
            panel.fill_between(curve.x, *band, color=hue, alpha=0.2, linewidth=0)
        what, _, by = row.rpartition("by ")
        _label(panel, column if i == 0 else "", by, what.rstrip(", ").replace(", ", "\n") if j == leftmost[row] else "")
        panel.set(yscale="log", ylim=(_LEAST, 10))
        if "degree" not in row:
            panel.set_xscale("log")
            _number_ticks(panel.xaxis)
    figure.suptitle(title)
    for panel in grid.flat:
        panel.set_visible(panel.has_data())
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=len(kinds), frameon=False)
    return figure


_LEAST = 1e-16  # what double precision leaves of a relative error


class Laws(NamedTuple):
    """A panel of curves that should be powers: curves with labels, of which equal ones share a hue, and exponents of guides."""

    title: str
    xlabel: str
    ylabel: str
    curves: list[tuple[str, Curve]]
    guides: Mapping[str, float]


def power_laws(rows: Sequence[Sequence[Laws]], title: str) -> Figure:
    """Rows of panels with logarithmic axes; guides are grey lines through the last point of the curves, in their order."""
    rows = [row for row in rows if row]
    columns = max(map(len, rows))
    figure = Figure(figsize=(max(3.2 * columns, 7), 2.9 * len(rows) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    alike = len({tuple(label for label, _ in laws.curves) for row in rows for laws in row}) == 1
    explained: set[str] = set()
    for i, row in enumerate(rows):
        for panel, laws in zip(grid[i], row, strict=False):
            labels = list(dict.fromkeys(label for label, _ in laws.curves))
            for label, curve in laws.curves:
                hue = HUES[labels.index(label)]
                panel.plot(curve.x, curve.errors.mean(0), color=hue, marker=".", label=label)
                panel.fill_between(curve.x, *(f(curve.errors, 0) for f in (np.min, np.max)), color=hue, alpha=0.2, lw=0)
            for (name, power), (_, curve), dash in zip(laws.guides.items(), laws.curves, ("--", ":"), strict=False):
                places = [place for _, other in laws.curves for place in (other.x.min(), other.x.max())]
                ends = np.array([min(places), max(places)])
                line = curve.errors.mean(0)[-1] * (ends / curve.x[-1]) ** power
                panel.plot(ends, line, color="0.55", linestyle=dash, linewidth=1, label=name, zorder=1)
            _label(panel, laws.title, laws.xlabel, laws.ylabel)
            panel.title.set_fontsize(10)
            panel.set(xscale="log", yscale="log")
            for axis in (panel.xaxis, panel.yaxis):
                _number_ticks(axis)
            found = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
            if not explained and alike:
                figure.legend(found.values(), found, loc="outside lower center", ncols=2, frameon=False)
            elif not explained.issuperset(found):
                panel.legend(found.values(), found, fontsize=7, frameon=False)
            explained |= set(found)
        for panel in grid[i][len(row) :]:
            panel.set_visible(False)
    figure.suptitle(title)
    return figure


class Timed(NamedTuple):
    """A point of accuracy against time; the spread is that over seeds, and the note is written beside it."""

    seconds: float
    accuracy: float
    spread: float = 0.0
    note: str = ""


_TOLD_APART = 3  # series that have a note at every point, and not at their ends alone


def accuracy_against_time(series: Mapping[str, Sequence[Timed]], published: Mapping[str, Timed], title: str) -> Figure:
    """Test accuracy against seconds in all, a line for each series; published points are stars with their names."""
    figure = Figure(figsize=(10, 6 + 0.25 * len(series)), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for (name, points), hue, mark in zip(series.items(), cycle(HUES), cycle("osD^vPX"), strict=False):
        seconds, accuracies = [p.seconds for p in points], [p.accuracy for p in points]
        panel.errorbar(
            seconds, accuracies, [p.spread for p in points], fmt=mark, linestyle="-", color=hue, capsize=3, label=name
        )
        for p in points if len(series) <= _TOLD_APART else {points[0], points[-1]}:
            place: dict[str, Any] = {"xytext": (6, -11), "textcoords": "offset points", "fontsize": 8, "color": hue}
            panel.annotate(p.note, (p.seconds, p.accuracy), **place)
    for name, p in published.items():
        panel.plot(p.seconds, p.accuracy, "*", color="0.35", markersize=14)
        place = {"xytext": (0, -12), "textcoords": "offset points", "ha": "center", "va": "top", "color": "0.35"}
        panel.annotate(f"{name}\n{p.note}", (p.seconds, p.accuracy), **place)
    _label(panel, f"{title}\ntest accuracy against time, labelled by the number of features", "", "test accuracy")
    panel.set_xscale("log")
    panel.margins(x=0.1, y=0.18)
    low, high = panel.get_xlim()
    ticks = {t: name for t, name in _TIMES.items() if low <= t <= high}
    panel.set_xticks(list(ticks), list(ticks.values()))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("time from whitened images to predictions: the median over seeds, of which the first compiles")
    panel.set_ylim(bottom=max(panel.get_ylim()[0], 0))
    panel.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if any(series):  # without a name there is one, and the title says what it is
        figure.legend(loc="outside lower center", frameon=False)
    return figure


class Line(NamedTuple):
    """Mean accuracies and their spread for numbers of features; `place` is that of its dual among the others.

    `bounds` says which accuracies are lower bounds: their marks are hollow.
    """

    label: str
    features: Sequence[int]
    accuracies: np.ndarray
    spread: np.ndarray
    place: int
    dashed: bool
    bounds: np.ndarray


def accuracy_by_features(
    lines: Sequence[Line],
    published: Mapping[str, tuple[int, float]],
    duals: Mapping[str, Activation],
    title: str,
) -> Figure:
    """Test accuracy against the number of features, and the dual kernels of the activations in the same hues."""
    figure = Figure(figsize=(12, 5.2 + 0.2 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for line in lines:
        style = {"color": HUES[line.place], "linestyle": DASHES[line.dashed], "marker": "s" if line.dashed else "o"}
        left.errorbar(line.features, line.accuracies, line.spread, capsize=3, label=line.label, **style)
        hollow = {"linestyle": "", "markerfacecolor": "white", "zorder": 3}
        left.plot(np.array(line.features)[line.bounds], line.accuracies[line.bounds], **style | hollow)
    for (name, (features, accuracy)), mark in zip(published.items(), cycle("*PX"), strict=False):
        left.plot(features, accuracy, mark, color="0.35", markersize=13, linestyle="", label=f"{name}, {accuracy:.2%}")
    bounded = any(line.bounds.any() for line in lines)
    heading = "Test accuracy" + "\nhollow: the least or the largest penalty was chosen, for some seed" * bounded
    _label(left, heading, "features", "test accuracy")
    left.set_xscale("log", base=2)
    ticks = sorted({features for line in lines for features in line.features})
    left.set_xticks(ticks, [f"{t:,}" for t in ticks])
    left.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    cosines = np.cos(np.linspace(0, np.pi, 301))
    for (name, activation), hue in zip(duals.items(), HUES, strict=False):
        k = np.asarray(dual(activation, 1.0, 1.0, cosines))
        right.plot(cosines, k / _scale(k[0]), color=hue, label=name)
    _label(right, "Dual kernels", "cosine c", "k(c) / k(1)")
    right.legend(frameon=False)
    figure.suptitle(title)
    columns = 2 if max(map(len, left.get_legend_handles_labels()[1])) < 60 else 1
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)
    return figure


class Compared(NamedTuple):
    """What a method scored with so many rows, in so many seconds, and the best score that any could have."""

    rows: int
    score: float
    seconds: float
    best: float


def tables_compared(sets: Mapping[str, Mapping[str, float]], grown: Mapping[str, Sequence[Compared]]) -> Figure:
    """Accuracies of methods by set, sorted by the first method's; scores and seconds as rows grow."""
    room = ConstrainedLayoutEngine(w_pad=0.15)
    figure = Figure(figsize=(13, max(4.6, 1.6 + 0.24 * len(sets))), layout=room)
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3, width_ratios=(4, 3, 3))
    methods = list(dict.fromkeys(method for own in sets.values() for method in own))
    names = sorted(sets, key=lambda name: next(iter(sets[name].values())))
    for k, (method, hue, mark) in enumerate(zip(methods, cycle(HUES), cycle("osD^vPX"), strict=False)):
        own = [(i, name) for i, name in enumerate(names) if method in sets[name]]
        heights = [i + 0.1 * ((len(methods) - 1) / 2 - k) for i, _ in own]  # one above the other where they are equal
        left.plot([sets[name][method] for _, name in own], heights, mark, color=hue, label=method, markersize=5)
    _label(left, "Classification, nested folds", "per cent right", "")
    left.set_yticks(range(len(names)), names)
    left.margins(y=0.1 if len(names) < 10 else 0.02)
    for (method, points), hue, mark in zip(grown.items(), cycle(HUES), cycle("osD^vPX"), strict=False):
        rows = [p.rows for p in points]
        middle.plot(rows, [p.score for p in points], marker=mark, color=hue, label=method)
        right.plot(rows, [p.seconds for p in points], marker=mark, color=hue)
    best = {p.rows: p.best for points in grown.values() for p in points}
    if best:
        middle.plot(sorted(best), [best[n] for n in sorted(best)], "--", color="0.35", label="best possible")
    _label(middle, "Regression: R² on further rows", "rows", "R²")
    _label(right, "Seconds to fit and predict,\nwithout compiling", "rows", "seconds")
    for panel in (middle, right):
        panel.set_xscale("log")
        panel.set_xticks(sorted(best), [f"{n:,}" for n in sorted(best)])
        panel.xaxis.set_minor_locator(NullLocator())
    right.set_yscale("log")
    for panel in (left, middle, right):
        panel.set_visible(panel.has_data())
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    return figure


_TIMES = {
    1: "1 s", 3: "3 s", 10: "10 s", 30: "30 s", 60: "1 min", 300: "5 min", 1200: "20 min", 3600: "1 h", 18_000: "5 h",
    86_400: "1 day", 432_000: "5 days",
}  # fmt: skip


class Training(NamedTuple):
    """Test accuracies of several seeds: by epoch, (seeds, epochs), and of those epochs that were chosen in some way.

    Seeds that diverged are in neither.
    """

    by_epoch: np.ndarray
    chosen: Mapping[str, np.ndarray]
    diverged: int = 0


def activations_trained(
    functions: Mapping[str, Activation],
    duals: Mapping[str, Activation],
    title: str,
    sizes: Mapping[str, Mapping[str, Training]],
) -> Figure:
    """On the left functions and their duals; then a column for each size: accuracies by epoch, and of chosen epochs."""
    names = list(dict.fromkeys([name for trained in sizes.values() for name in trained] + list(duals)))
    hues = dict(zip(names, cycle(HUES), strict=False))
    figure = Figure(figsize=(4.6 + 5.6 * len(sizes), 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, 1 + len(sizes), squeeze=False, width_ratios=[1, *[1.3] * len(sizes)])
    top, bottom = grid[:, 0]
    t, cosines = jnp.linspace(-3, 3, 601), np.cos(np.linspace(0, np.pi, 301))
    for (name, activation), dash in zip(functions.items(), DASHES, strict=False):
        top.plot(t, np.asarray(activation.fn(t)), color=hues[name], linestyle=dash, linewidth=1.8, label=name)
    for (name, activation), dash in zip(duals.items(), (DASHES[0], *DASHES), strict=False):
        k = np.asarray(dual(activation, 1.0, 1.0, cosines))
        bottom.plot(cosines, k / _scale(k[0]), color=hues[name], linestyle=dash, linewidth=1.8, label=name)
    _label(top, "Activations", "t", "f(t)")
    _label(bottom, title, "cosine c", "k(c) / k(1)")
    for panel in (top, bottom):
        panel.legend(frameon=False)
    for j, (size, trained) in enumerate(sizes.items(), 1):
        _training_panels(grid[0, j], grid[1, j], size, trained, hues)
    return figure


def _training_panels(
    top: Axes, bottom: Axes, size: str, trained: Mapping[str, Training], hues: Mapping[str, str]
) -> None:
    seeds = max(len(own.by_epoch) for own in trained.values())
    ended = {name: own for name, own in trained.items() if len(own.by_epoch)}
    for (name, own), dash in zip(trained.items(), DASHES, strict=False):
        if name not in ended:
            continue
        epochs, count = np.arange(1, own.by_epoch.shape[1] + 1), len(own.by_epoch)
        label = name if count == seeds else f"{name}, {count} of {count + own.diverged} seeds"
        top.plot(epochs, own.by_epoch.mean(0), color=hues[name], linestyle=dash, linewidth=1.8, label=label)
        top.fill_between(epochs, own.by_epoch.min(0), own.by_epoch.max(0), color=hues[name], alpha=0.15, linewidth=0)
    kinds = list(dict.fromkeys(kind for own in trained.values() for kind in own.chosen))
    for kind, mark, shift in zip(kinds, "osD", (-0.2, 0, 0.2), strict=False):
        for i, (name, own) in enumerate(trained.items()):
            if name not in ended:
                continue
            found = own.chosen[kind]
            bottom.plot(np.full(len(found), i + shift), found, mark, color=hues[name], alpha=0.45, markersize=5)
            bottom.plot([i + shift - 0.08, i + shift + 0.08], [found.mean()] * 2, color=hues[name], linewidth=2.5)
        bottom.plot([], [], mark, color="0.4", markersize=5, label=kind)
    shown = f"mean over seeds ({seeds}), and all of them as a band" if ended else "all seeds diverged"
    _label(top, f"{size}\n{shown}", "epoch", "test accuracy")
    _label(bottom, "Every seed, and the mean as a bar", "", "test accuracy")
    if ended:
        top.legend(frameon=False, loc="best", ncols=2)
    names = [f"{name}\n({own.diverged} diverged)" if own.diverged else name for name, own in trained.items()]
    bottom.set_xticks(range(len(trained)), names)
    bottom.set_xlim(-0.6, len(trained) - 0.4)
    bottom.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    for panel in (top, bottom):
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    top.xaxis.set_major_locator(MaxNLocator(integer=True))


class Estimate(NamedTuple):
    """An accuracy and its standard error, or why there is none; `bound` says that it is a lower bound."""

    accuracy: float | None
    error: float | None
    failure: str
    bound: bool


def ranked_accuracies(panels: Mapping[str, Mapping[str, Mapping[str, Estimate]]], title: str) -> Figure:
    """A panel for each title: a row for each name, from the top, with a mark for each kind, hollow for lower bounds."""
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    tallest = max(map(len, panels.values()))
    figure = Figure(figsize=(max(4.6 * columns, 7), (0.22 * tallest + 1.2) * rows + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    marks: dict[str, Any] = {}
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (name, ranked) in zip(grid, panels.items(), strict=False):
        _label(panel, "", "test accuracy", "")
        panel.set_title(name, fontsize=10)
        kinds = list(dict.fromkeys(kind for found in ranked.values() for kind in found))
        apart = 0.3 * len(ranked) / tallest  # as far in every panel, so that error bars can be told apart
        for place, found in enumerate(ranked.values()):
            for kind, own in found.items():
                i = kinds.index(kind)
                height = place + apart * (i - (len(kinds) - 1) / 2)
                if own.accuracy is None:
                    words = {"fontsize": 7, "va": "center", "transform": panel.get_yaxis_transform(), "color": HUES[i]}
                    panel.text(0.01 + 0.3 * i, place, f"{kind} {own.failure}", **words)
                    continue
                style = {"fmt": "os^v"[i], "color": HUES[i], "markersize": 4, "linewidth": 1}
                hollow = {"markerfacecolor": "white"} if own.bound else {}
                drawn = panel.errorbar(own.accuracy, height, xerr=own.error, **style, **hollow)
                marks[kind] = marks[kind] if own.bound and kind in marks else drawn  # the legend has full ones
        panel.set_yticks(range(len(ranked)), list(ranked), fontsize=8)
        panel.set_ylim(len(ranked) - 0.4, -0.6)
        panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    for panel in grid[len(panels) :]:
        panel.set_visible(False)
    figure.suptitle(title)
    figure.legend(marks.values(), marks, loc="outside lower center", ncols=max(len(marks), 1), frameon=False)
    return figure


def _number_ticks(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis: few ticks, also where it has less than a decade."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 60 * low else (1,), numticks=9))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _scale(value: float) -> float:
    return value if value else 1.0


def _label(panel: Axes, title: str, xlabel: str, ylabel: str) -> None:
    panel.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if xlabel.startswith("cosine"):
        panel.set_xticks([-1, -0.5, 0, 0.5, 1])
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
