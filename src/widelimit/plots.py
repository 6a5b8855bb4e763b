"""Plots, in colours told apart by all eyes (Okabe and Ito, 2008)."""

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter

from .activations import Activation, dual, dual_slope

HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))


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
    for (row, column), curves in panels.items():
        i, j = rows.index(row), columns.index(column)
        panel = grid[i, j]
        for kind, curve in curves.items():
            hue = HUES[kinds.index(kind)]
            (lines[kind],) = panel.plot(curve.x, np.maximum(curve.errors.mean(0), _LEAST), color=hue, marker=".")
            band = (np.clip(f(curve.errors, 0), _LEAST, None) for f in (np.min, np.max))
            panel.fill_between(curve.x, *band, color=hue, alpha=0.2, linewidth=0)
        _label(panel, column if i == 0 else "", "", row.replace(", ", "\n") if j == 0 else "")
        panel.set(yscale="log", ylim=(_LEAST, 10))
        if "degree" not in row:
            panel.set_xscale("log")
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


def accuracy_against_time(series: Mapping[str, Sequence[Timed]], published: Mapping[str, Timed], title: str) -> Figure:
    """Test accuracy against seconds in all, a line for each series; published points are stars with their names."""
    figure = Figure(figsize=(10, 6 + 0.25 * len(series)), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for (name, points), hue, mark in zip(series.items(), cycle(HUES), cycle("osD^vP"), strict=False):
        seconds, accuracies = [p.seconds for p in points], [p.accuracy for p in points]
        panel.errorbar(
            seconds, accuracies, [p.spread for p in points], fmt=mark, linestyle="-", color=hue, capsize=3, label=name
        )
        for p in points:
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
    panel.set_xlabel(
        "time in all, from the images to the predictions; the median over seeds, of which the first compiles"
    )
    panel.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.legend(loc="outside lower center", frameon=False)
    return figure


_TIMES = {
    1: "1 s", 3: "3 s", 10: "10 s", 30: "30 s", 60: "1 min", 300: "5 min", 1200: "20 min", 3600: "1 h", 18_000: "5 h",
    86_400: "1 day", 432_000: "5 days",
}  # fmt: skip


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
