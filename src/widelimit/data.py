"""The old name of `widelimit.datasets`."""

from ._moved import forward

__getattr__ = forward("widelimit.data", "widelimit.datasets")
