"""The old name of `widelimit.reproduce.study`."""

from .._moved import forward

__getattr__ = forward("widelimit.experiments.study", "widelimit.reproduce.study")
