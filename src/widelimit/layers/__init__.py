"""Every layer. `base` says what a layer is; to add one, write its class and list it here and in the tests' catalogue."""

from .base import WRONG_PARAMETERS, Identity, Layer, Nonlinearity, as_layer
from .branches import FanInConcat, FanInSum, FanOut, Parallel, parallel
from .pointwise import Dropout, LayerNorm
from .spatial import AvgPool, Flatten, GlobalAvgPool, GlobalSumPool, SumPool
from .weights import Conv, Dense, scales

__all__ = [
    "WRONG_PARAMETERS", "AvgPool", "Conv", "Dense", "Dropout", "FanInConcat", "FanInSum", "FanOut", "Flatten", "GlobalAvgPool",
    "GlobalSumPool", "Identity", "Layer", "LayerNorm", "Nonlinearity", "Parallel", "SumPool", "as_layer", "parallel",
    "scales",
]  # fmt: skip
