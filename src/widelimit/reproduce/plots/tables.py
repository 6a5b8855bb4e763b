"""Methods compared on tables."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator

from .canvas import HUES, MARKS, label_axes, new_figure


class ScoreOfRows(NamedTuple):
    """The score and the seconds of a method on so many rows, and the best score that any method can have."""

    rows: int
    score: float
    seconds: float
    best: float


def compare_methods(sets: Mapping[str, Mapping[str, float]], by_rows: Mapping[str, Sequence[ScoreOfRows]]) -> Figure:
    """Accuracies of methods on every set, sorted by the first method's; scores and seconds by the number of rows."""
    room = ConstrainedLayoutEngine(w_pad=0.15)
    figure = new_figure(13, max(4.6, 1.6 + 0.24 * len(sets)), room)
    left, middle, right = figure.subplots(1, 3, width_ratios=(4, 3, 3))
    _draw_sets(left, sets)
    for (method, points), hue, mark in zip(by_rows.items(), cycle(HUES), cycle(MARKS), strict=False):
        rows = [p.rows for p in points]
        middle.plot(rows, [p.score for p in points], marker=mark, color=hue, label=method)
        right.plot(rows, [p.seconds for p in points], marker=mark, color=hue)
    best = {p.rows: p.best for points in by_rows.values() for p in points}
    if best:
        middle.plot(sorted(best), [best[n] for n in sorted(best)], "--", color="0.35", label="best possible")
    label_axes(middle, "Regression: R² on further rows", "rows", "R²")
    label_axes(right, "Seconds to fit and predict,\nwithout compiling", "rows", "seconds")
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


def _draw_sets(panel: Axes, sets: Mapping[str, Mapping[str, float]]) -> None:
    methods = list(dict.fromkeys(method for scores in sets.values() for method in scores))
    names = sorted(sets, key=lambda name: next(iter(sets[name].values())))
    for k, (method, hue, mark) in enumerate(zip(methods, cycle(HUES), cycle(MARKS), strict=False)):
        rows = [(i, sets[name][method]) for i, name in enumerate(names) if method in sets[name]]
        heights = [i + 0.1 * ((len(methods) - 1) / 2 - k) for i, _ in rows]  # one above the other where they are equal
        panel.plot([score for _, score in rows], heights, mark, color=hue, label=method, markersize=5)
    label_axes(panel, "Classification, nested folds", "per cent right", "")
    panel.set_yticks(range(len(names)), names)
    panel.margins(y=0.1 if len(names) < 10 else 0.02)
