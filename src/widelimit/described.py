"""The old name of `widelimit.storage.module`."""

from ._moved import forward

__getattr__ = forward("widelimit.described", "widelimit.storage.module")
