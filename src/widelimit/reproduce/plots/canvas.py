"""What all figures share: colours told apart by all eyes (Okabe and Ito, 2008), axes, and files."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.ticker import LogLocator, NullFormatter

from ...storage.files import atomic_file

HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKS = "osD^vPX"
COSINES = np.cos(np.linspace(0, np.pi, 301))  # from 1 down, dense at the ends: kinks are steep there


def new_figure(width: float, height: float, layout: LayoutEngine | str = "constrained") -> Figure:
    """A figure of this size in inches, without a window."""
    figure = Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, dpi: int = 150, origin: str | None = None) -> None:
    """Write a figure into a file, of the kind that its name ends with, and into its metadata what it shows."""
    kind = path.suffix[1:]
    metadata = {"Subject" if kind == "pdf" else "Description": origin} if origin else None
    with atomic_file(path) as file:
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)


def label_axes(panel: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Name a panel and its axes, over a light grid."""
    panel.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if xlabel.startswith("cosine"):
        panel.set_xticks([-1, -0.5, 0, 0.5, 1])
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def number_ticks(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis: few ticks, also where it has less than a decade."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 60 * low else (1,), numticks=9))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def or_one(value: float) -> float:
    """The value to divide by: 1 where it is 0."""
    return value if value else 1.0
