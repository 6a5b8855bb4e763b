"""Plots, in colours told apart by all eyes (Okabe and Ito, 2008)."""

from collections.abc import Mapping
from itertools import cycle, product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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


def _scale(value: float) -> float:
    return value if value else 1.0


def _label(panel: Axes, title: str, xlabel: str, ylabel: str) -> None:
    panel.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if xlabel.startswith("cosine"):
        panel.set_xticks([-1, -0.5, 0, 0.5, 1])
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
