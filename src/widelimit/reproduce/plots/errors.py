"""Errors and times on logarithmic axes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .canvas import HUES, label_axes, new_figure, number_ticks

_LEAST = 1e-16  # what double precision leaves of a relative error


class Curve(NamedTuple):
    """Errors of several trials, (trials, points), at places x."""

    x: np.ndarray
    errors: np.ndarray


def error_curves(panels: Mapping[tuple[str, str], Mapping[str, Curve]], title: str) -> Figure:
    """Errors on logarithmic axes: a panel for each (row, column), a hue for each kind.

    The horizontal axes are logarithmic too, except those of degrees.
    """
    rows, columns = (list(dict.fromkeys(place[i] for place in panels)) for i in (0, 1))
    kinds = list(dict.fromkeys(kind for curves in panels.values() for kind in curves))
    figure = new_figure(2.6 * len(columns) + 1, 2.5 * len(rows) + 1)
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
        heading, _, by = row.rpartition("by ")
        ylabel = heading.rstrip(", ").replace(", ", "\n") if j == leftmost[row] else ""
        label_axes(panel, column if i == 0 else "", by, ylabel)
        panel.set(yscale="log", ylim=(_LEAST, 10))
        if "degree" not in row:
            panel.set_xscale("log")
            number_ticks(panel.xaxis)
    figure.suptitle(title)
    for panel in grid.flat:
        panel.set_visible(panel.has_data())
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=len(kinds), frameon=False)
    return figure


class Laws(NamedTuple):
    """A panel of curves that should be powers: labelled curves, of which equal labels share a hue, and exponents of guides."""

    title: str
    xlabel: str
    ylabel: str
    curves: list[tuple[str, Curve]]
    guides: Mapping[str, float]


def power_laws(rows: Sequence[Sequence[Laws]], title: str) -> Figure:
    """Rows of panels with logarithmic axes. Guides are grey lines: the i-th goes through the last point of the i-th curve."""
    rows = [row for row in rows if row]
    columns = max(map(len, rows))
    figure = new_figure(max(3.2 * columns, 7), 2.9 * len(rows) + 0.6)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    alike = len({tuple(label for label, _ in laws.curves) for row in rows for laws in row}) == 1
    explained: set[str] = set()
    for i, row in enumerate(rows):
        for panel, laws in zip(grid[i], row, strict=False):
            _draw_laws(panel, laws)
            handles = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
            if not explained and alike:
                figure.legend(handles.values(), handles, loc="outside lower center", ncols=2, frameon=False)
            elif not explained.issuperset(handles):
                panel.legend(handles.values(), handles, fontsize=7, frameon=False)
            explained |= set(handles)
        for panel in grid[i][len(row) :]:
            panel.set_visible(False)
    figure.suptitle(title)
    return figure


def _draw_laws(panel: Axes, laws: Laws) -> None:
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
    label_axes(panel, laws.title, laws.xlabel, laws.ylabel)
    panel.title.set_fontsize(10)
    panel.set(xscale="log", yscale="log")
    for axis in (panel.xaxis, panel.yaxis):
        number_ticks(axis)
