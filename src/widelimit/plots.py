"""The old name of `widelimit.reproduce.plots`."""

from ._moved import forward

__getattr__ = forward("widelimit.plots", "widelimit.reproduce.plots")
