"""Activations by their duals, slopes and spectra."""

from collections.abc import Mapping
from itertools import cycle, product

import numpy as np
from matplotlib.figure import Figure

from ...activations import Activation, dual, dual_slope
from .canvas import COSINES, DASHES, HUES, label_axes, new_figure, or_one


def activation_curves(activations: Mapping[str, Activation], std: float = 1.0, degree: int = 8) -> Figure:
    """Duals, slopes and spectra of activations for inputs of one standard deviation, as shares of their values at cosine 1."""
    rows = -(-len(activations) // 6)
    figure = new_figure(14, 4.6 + 0.25 * rows)
    left, middle, right = figure.subplots(1, 3)
    styles = cycle(product(DASHES, HUES))
    degrees = np.arange(degree + 1)
    for (name, activation), (dash, hue) in zip(activations.items(), styles, strict=False):
        k = np.asarray(dual(activation, std, std, COSINES))
        slope = np.asarray(dual_slope(activation, std, std, COSINES))
        spectrum = np.asarray(activation.radial(np.float64(std), degree), np.float64).ravel() ** 2
        style = {"color": hue, "linestyle": dash, "linewidth": 1.8}
        left.plot(COSINES, k / or_one(k[0]), **style, label=name)
        middle.plot(COSINES, slope / or_one(slope[0]), **style)
        share = spectrum / or_one(k[0])
        visible = share > 1e-6
        right.plot(degrees[visible], share[visible], **style, marker="o", markersize=4)
    label_axes(left, "Dual: the covariance after one layer", "cosine c", "k(c) / k(1)")
    label_axes(middle, "Slope: the factor of the NTK", "cosine c", "k'(c) / k'(1)")
    label_axes(right, "Spectrum: the share of each degree", "degree", "share of k(1)")
    right.set_yscale("log")
    right.set_xticks(degrees if degree <= 16 else degrees[:: -(-degree // 16)])
    figure.suptitle(f"What activations make of the cosine of two inputs of standard deviation {std:g}")
    figure.legend(loc="outside lower center", ncols=min(len(activations), 7), frameon=False)
    return figure
