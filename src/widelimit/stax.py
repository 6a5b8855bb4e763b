"""`widelimit.stax` is `widelimit.nt.stax`: neural-tangents' layers."""

from .nt import stax as _stax
from .nt.stax import *  # noqa: F403


def __getattr__(name: str) -> object:
    return getattr(_stax, name)
