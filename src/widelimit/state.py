"""The old name of `widelimit.layers.state`."""

from ._moved import forward

__getattr__ = forward("widelimit.state", "widelimit.layers.state")
