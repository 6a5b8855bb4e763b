"""Finite networks in training."""

from collections.abc import Mapping
from itertools import cycle
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ...activations import Activation, dual
from .canvas import COSINES, DASHES, HUES, label_axes, new_figure, or_one


class Training(NamedTuple):
    """Test accuracies of the seeds that did not diverge: by epoch, (seeds, epochs), and of epochs that a rule selects."""

    by_epoch: np.ndarray
    selected: Mapping[str, np.ndarray]
    diverged: int = 0


def training_curves(
    functions: Mapping[str, Activation],
    duals: Mapping[str, Activation],
    title: str,
    sizes: Mapping[str, Mapping[str, Training]],
) -> Figure:
    """On the left functions and their duals; then a column for each size: accuracies by epoch, and of selected epochs."""
    names = list(dict.fromkeys([name for trained in sizes.values() for name in trained] + list(duals)))
    hues = dict(zip(names, cycle(HUES), strict=False))
    figure = new_figure(4.6 + 5.6 * len(sizes), 7.6)
    grid = figure.subplots(2, 1 + len(sizes), squeeze=False, width_ratios=[1, *[1.3] * len(sizes)])
    top, bottom = grid[:, 0]
    t = jnp.linspace(-3, 3, 601)
    for (name, activation), dash in zip(functions.items(), DASHES, strict=False):
        top.plot(t, np.asarray(activation.fn(t)), color=hues[name], linestyle=dash, linewidth=1.8, label=name)
    for (name, activation), style in zip(duals.items(), (DASHES[0], *DASHES), strict=False):
        k = np.asarray(dual(activation, 1.0, 1.0, COSINES))
        bottom.plot(COSINES, k / or_one(k[0]), color=hues[name], linestyle=style, linewidth=1.8, label=name)
    label_axes(top, "Activations", "t", "f(t)")
    label_axes(bottom, title, "cosine c", "k(c) / k(1)")
    for panel in (top, bottom):
        panel.legend(frameon=False)
    for j, (size, trained) in enumerate(sizes.items(), 1):
        _draw_epochs(grid[0, j], size, trained, hues)
        _draw_seeds(grid[1, j], trained, hues)
    return figure


def _draw_epochs(panel: Axes, size: str, trained: Mapping[str, Training], hues: Mapping[str, str]) -> None:
    seeds = max(len(own.by_epoch) for own in trained.values())
    for (name, own), dash in zip(trained.items(), DASHES, strict=False):
        count = len(own.by_epoch)
        if count:
            epochs, color = np.arange(1, own.by_epoch.shape[1] + 1), hues[name]
            label = name if count == seeds else f"{name}, {count} of {count + own.diverged} seeds"
            panel.plot(epochs, own.by_epoch.mean(0), color=color, linestyle=dash, linewidth=1.8, label=label)
            panel.fill_between(epochs, own.by_epoch.min(0), own.by_epoch.max(0), color=color, alpha=0.15, linewidth=0)
    note = f"mean over seeds ({seeds}), and all of them as a band" if seeds else "all seeds diverged"
    label_axes(panel, f"{size}\n{note}", "epoch", "test accuracy")
    if seeds:
        panel.legend(frameon=False, loc="best", ncols=2)
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_seeds(panel: Axes, trained: Mapping[str, Training], hues: Mapping[str, str]) -> None:
    kinds = list(dict.fromkeys(kind for own in trained.values() for kind in own.selected))
    for kind, mark, shift in zip(kinds, "osD", (-0.2, 0, 0.2), strict=False):
        for i, (name, own) in enumerate(trained.items()):
            if not len(own.by_epoch):
                continue
            accuracies = own.selected[kind]
            places = np.full(len(accuracies), i + shift)
            panel.plot(places, accuracies, mark, color=hues[name], alpha=0.45, markersize=5)
            mean = [accuracies.mean()] * 2
            panel.plot([i + shift - 0.08, i + shift + 0.08], mean, color=hues[name], linewidth=2.5)
        panel.plot([], [], mark, color="0.4", markersize=5, label=kind)
    label_axes(panel, "Every seed, and the mean as a bar", "", "test accuracy")
    names = [f"{name}\n({own.diverged} diverged)" if own.diverged else name for name, own in trained.items()]
    panel.set_xticks(range(len(trained)), names)
    panel.set_xlim(-0.6, len(trained) - 0.4)
    panel.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
