"""The old name of `widelimit.regression.device`."""

from ._moved import forward

__getattr__ = forward("widelimit.device_ridge", "widelimit.regression.device")
