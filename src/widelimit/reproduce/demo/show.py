"""Tables and figures of the demo."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullFormatter, PercentFormatter
from rich.table import Table

from ..plots.canvas import HUES, label_axes, new_figure
from .measure import EXACT, SKETCHED, Crossing, Digits, Score, Step, project

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_HUES = {EXACT: HUES[1], SKETCHED: HUES[0]}
_GREY = "#555555"


def label(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    for limit, unit, name in ((2 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / _DAY:.0f} days"


def crossing_sentence(crossing: Crossing | None, sketched: Sequence[Step]) -> str:
    """Where the sketch becomes faster, in a sentence."""
    if crossing is None:
        return f"Up to {sketched[-1].rows:,} rows, the exact kernel is faster."
    if crossing.rows == sketched[0].rows:
        return f"The sketch is faster from {sketched[0].rows:,} rows on, or fewer."
    how = " as projected" if crossing.projected else ""
    return f"The sketch is faster from about {round(crossing.rows, -2):,.0f} rows on{how}."


def scores_table(scores: dict[str, Score], data: Digits, features: int) -> Table:
    """The five methods, the most accurate first."""
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
    """A line for each number of rows."""
    table = Table(
        title="The same digits shifted and turned at random: more rows",
        caption=f"Time of a fit, compiled before. {crossing_sentence(crossing, sketched)} (~: projected from "
        f"{exact[-1].rows:,} rows, the kernel by n², its solution by n³.)",
    )
    known = {s.rows: s for s in exact}
    table.add_column("rows", justify="right")
    for heading in (EXACT, SKETCHED, f"accuracy, {EXACT}", f"accuracy, {SKETCHED}"):
        table.add_column(heading, justify="right")
    for s in sketched:
        own = known.get(s.rows)
        seconds = f"~ {label(project(exact, s.rows))}" if own is None else label(own.seconds)
        table.add_row(
            f"{s.rows:,}", seconds, label(s.seconds), "" if own is None else str(own.accuracy), str(s.accuracy)
        )
    return table


def _panel(panel: Axes, title: str, xlabel: str = "", **settings: Any) -> None:
    label_axes(panel, title, xlabel, "")
    panel.set(**settings)


def _figure(height: float, ratios: tuple[float, float]) -> tuple[Figure, Axes, Axes]:
    figure = new_figure(10, height)
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
        right.annotate(label(seconds), (seconds, place), (0, 8), **note)
        if first > seconds:
            right.plot([seconds, first], [place, place], color=hue, linewidth=1, zorder=0)
            right.plot(first, place, "o", color=hue, markersize=8, markerfacecolor="white")
            right.annotate(f"{label(first)} with compilation", (first, place), (0, 8), **note)
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
    lines = (EXACT, exact, "s", 0.98), (SKETCHED, sketched, "o", 1.02)  # side by side, where bars would overlap
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
        times = [project(exact, n) for n in ahead]
        left.plot(ahead, times, "--", color=_HUES[EXACT], label=f"{EXACT}, projected")
        note: dict[str, Any] = {"xytext": (-8, 3), "textcoords": "offset points", "ha": "right"}
        left.annotate(f"~ {label(times[-1])}", (end, times[-1]), color=_HUES[EXACT], va="center", **note)
        left.annotate(label(sketched[-1].seconds), (end, sketched[-1].seconds), color=_HUES[SKETCHED], **note)
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
