"""The old name of `widelimit.features.feature_map`."""

from ._moved import forward

__getattr__ = forward("widelimit.sketched", "widelimit.features.feature_map")
