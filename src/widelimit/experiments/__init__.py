"""The old name of `widelimit.reproduce`."""

from .._moved import forward

__getattr__ = forward("widelimit.experiments", "widelimit.reproduce")
