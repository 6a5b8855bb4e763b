"""Accuracies on CIFAR-10: against time, against the number of features, and ranked."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter

from ...activations import Activation, dual
from .canvas import COSINES, DASHES, HUES, MARKS, label_axes, new_figure, or_one

_TIMES = {
    1: "1 s", 3: "3 s", 10: "10 s", 30: "30 s", 60: "1 min", 300: "5 min", 1200: "20 min", 3600: "1 h", 18_000: "5 h",
    86_400: "1 day", 432_000: "5 days",
}  # fmt: skip
_FEW = 3  # series of which every point has its note; of more, only the ends have


class Timed(NamedTuple):
    """A point of accuracy against time, with its spread over seeds, and a note to write beside it."""

    seconds: float
    accuracy: float
    spread: float = 0.0
    note: str = ""


def accuracy_against_time(series: Mapping[str, Sequence[Timed]], published: Mapping[str, Timed], title: str) -> Figure:
    """Test accuracy against total seconds, a line for each series; published points are stars with their names."""
    figure = new_figure(10, 6 + 0.25 * len(series))
    panel = figure.subplots()
    for (name, points), hue, mark in zip(series.items(), cycle(HUES), cycle(MARKS), strict=False):
        seconds, accuracies = [p.seconds for p in points], [p.accuracy for p in points]
        panel.errorbar(
            seconds, accuracies, [p.spread for p in points], fmt=mark, linestyle="-", color=hue, capsize=3, label=name
        )
        for p in points if len(series) <= _FEW else {points[0], points[-1]}:
            style: dict[str, Any] = {"xytext": (6, -11), "textcoords": "offset points", "fontsize": 8, "color": hue}
            panel.annotate(p.note, (p.seconds, p.accuracy), **style)
    for name, p in published.items():
        panel.plot(p.seconds, p.accuracy, "*", color="0.35", markersize=14)
        style = {"xytext": (0, -12), "textcoords": "offset points", "ha": "center", "va": "top", "color": "0.35"}
        panel.annotate(f"{name}\n{p.note}", (p.seconds, p.accuracy), **style)
    label_axes(panel, f"{title}\ntest accuracy against time, labelled by the number of features", "", "test accuracy")
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
    """Mean accuracies and their spread by the number of features; `place` is the place of its dual among `duals`.

    `bounds` marks the accuracies that are lower bounds, whose marks are hollow.
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
    figure = new_figure(12, 5.2 + 0.2 * len(lines))
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
    label_axes(left, heading, "features", "test accuracy")
    left.set_xscale("log", base=2)
    ticks = sorted({features for line in lines for features in line.features})
    left.set_xticks(ticks, [f"{t:,}" for t in ticks])
    left.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for (name, activation), hue in zip(duals.items(), HUES, strict=False):
        k = np.asarray(dual(activation, 1.0, 1.0, COSINES))
        right.plot(COSINES, k / or_one(k[0]), color=hue, label=name)
    label_axes(right, "Dual kernels", "cosine c", "k(c) / k(1)")
    right.legend(frameon=False)
    figure.suptitle(title)
    columns = 2 if max(map(len, left.get_legend_handles_labels()[1])) < 60 else 1
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)
    return figure


class Estimate(NamedTuple):
    """An accuracy and its standard error, or why there is none; `bound` says that it is a lower bound."""

    accuracy: float | None
    error: float | None
    failure: str
    bound: bool


def ranked_accuracies(panels: Mapping[str, Mapping[str, Mapping[str, Estimate]]], title: str) -> Figure:
    """A panel for each title, with a row for each name and a mark for each kind, hollow for lower bounds."""
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    tallest = max(map(len, panels.values()))
    figure = new_figure(max(4.6 * columns, 7), (0.22 * tallest + 1.2) * rows + 1.2)
    marks: dict[str, Any] = {}
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (name, ranked) in zip(grid, panels.items(), strict=False):
        apart = 0.3 * len(ranked) / tallest  # as far in every panel, so that error bars do not overlap
        _draw_ranked(panel, ranked, apart, marks)
        panel.set_title(name, fontsize=10)
    for panel in grid[len(panels) :]:
        panel.set_visible(False)
    figure.suptitle(title)
    figure.legend(marks.values(), marks, loc="outside lower center", ncols=max(len(marks), 1), frameon=False)
    return figure


def _draw_ranked(
    panel: Axes, ranked: Mapping[str, Mapping[str, Estimate]], apart: float, marks: dict[str, Any]
) -> None:
    """Draw a row for each name, from the top, and add a full mark of every kind to `marks`."""
    label_axes(panel, "", "test accuracy", "")
    kinds = list(dict.fromkeys(kind for estimates in ranked.values() for kind in estimates))
    for row, estimates in enumerate(ranked.values()):
        for kind, estimate in estimates.items():
            i = kinds.index(kind)
            height = row + apart * (i - (len(kinds) - 1) / 2)
            if estimate.accuracy is None:
                text: dict[str, Any] = {
                    "fontsize": 7,
                    "va": "center",
                    "transform": panel.get_yaxis_transform(),
                    "color": HUES[i],
                }
                panel.text(0.01 + 0.3 * i, row, f"{kind} {estimate.failure}", **text)
                continue
            style: dict[str, Any] = {"fmt": "os^v"[i], "color": HUES[i], "markersize": 4, "linewidth": 1}
            hollow: dict[str, Any] = {"markerfacecolor": "white"} if estimate.bound else {}
            bar = panel.errorbar(estimate.accuracy, height, xerr=estimate.error, **style, **hollow)
            marks[kind] = marks[kind] if estimate.bound and kind in marks else bar
    panel.set_yticks(range(len(ranked)), list(ranked), fontsize=8)
    panel.set_ylim(len(ranked) - 0.4, -0.6)
    panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
