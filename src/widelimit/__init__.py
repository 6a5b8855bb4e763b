"""widelimit: kernels of infinitely wide neural networks, for any architecture and any activation.

A network is described once and read several ways: `net.kernel(x1, x2)` gives its exact NNGP and NTK, `net.init` and
`net.apply` the finite network itself.
"""

from . import activations, linear, nets, nt, stax
from . import sketches as sketch
from .activations import *  # noqa: F403  every activation: `activations.__all__`
from .kernels.exact import Kernels
from .layers import (
    AvgPool,
    Conv,
    Dense,
    Dropout,
    FanInConcat,
    FanInSum,
    FanOut,
    Flatten,
    GlobalAvgPool,
    GlobalSumPool,
    Identity,
    Layer,
    LayerNorm,
    SumPool,
    parallel,
)
from .network import Network, from_json, load_features, repeat, residual, serial

__version__ = "0.1.0"

__all__ = [
    "AvgPool",
    "Conv",
    "Dense",
    "Dropout",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "GlobalAvgPool",
    "GlobalSumPool",
    "Identity",
    "Kernels",
    "Layer",
    "LayerNorm",
    "Network",
    "SumPool",
    "from_json",
    "linear",
    "load_features",
    "nets",
    "nt",
    "parallel",
    "repeat",
    "residual",
    "serial",
    "sketch",
    "stax",
]
__all__ += activations.__all__
