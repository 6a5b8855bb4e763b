"""neural-tangents' names: `from widelimit.nt import stax, predict`.

It adapts names, signatures and return types; what is computed lives in widelimit itself. docs/neural_tangents.md lists
every name, what it maps to and what differs.
"""

from typing import Any

from . import predict, stax
from .batching import batch
from .choosing import missing_name
from .empirical import (
    empirical_kernel_fn,
    empirical_nngp_fn,
    empirical_ntk_fn,
    linearize,
    monte_carlo_kernel_fn,
    taylor_expand,
)
from .kernels import Kernel

__all__ = [
    "Kernel", "batch", "empirical_kernel_fn", "empirical_nngp_fn", "empirical_ntk_fn", "linearize",
    "monte_carlo_kernel_fn", "predict", "stax", "taylor_expand",
]  # fmt: skip

_NEAREST = {
    "empirical_ntk_vp_fn": "empirical_ntk_fn",
    "NtkImplementation": "empirical_ntk_fn, which has one implementation",
    "experimental": "the rest of widelimit",
}


def __getattr__(name: str) -> Any:
    raise missing_name("nt", name, _NEAREST)
