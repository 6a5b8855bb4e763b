"""The old name of `widelimit.storage.described`."""

from ._moved import forward

__getattr__ = forward("widelimit.described", "widelimit.storage.described")
