"""widelimit: kernels of infinitely wide neural networks, for any architecture and any activation.

A network is described once and read several ways: `net.kernel(x1, x2)` gives its exact NNGP and NTK, `net.init` and
`net.apply` the finite network itself.
"""

from . import linear, nets, nt, stax
from . import sketches as sketch
from .activations import (
    ABRelu,
    Abs,
    Activation,
    Affine,
    Celu,
    Cos,
    Elementwise,
    Elu,
    Erf,
    Exp,
    ExpNormalized,
    FromDual,
    Gabor,
    Gaussian,
    Gelu,
    HardTanh,
    Hermite,
    LeakyRelu,
    Mish,
    Monomial,
    Polynomial,
    Rbf,
    RectifiedMonomial,
    Relu,
    Relu6,
    Selu,
    Sigmoid,
    SigmoidLike,
    Sign,
    Silu,
    Sin,
    Softplus,
    Softsign,
    Tanh,
    dual,
    dual_slope,
    register,
)  # fmt: skip
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
)  # fmt: skip
from .network import Network, from_json, load_features, repeat, residual, serial

__version__ = "0.1.0"

__all__ = [
    "ABRelu", "Abs", "Activation", "Affine", "AvgPool", "Celu", "Conv", "Cos", "Dense", "Dropout", "Elementwise", "Elu",
    "Erf", "Exp", "ExpNormalized", "FanInConcat", "FanInSum", "FanOut", "Flatten", "FromDual", "Gabor", "Gaussian", "Gelu",
    "GlobalAvgPool", "GlobalSumPool", "HardTanh", "Hermite", "Identity", "Kernels", "Layer", "LayerNorm", "LeakyRelu",
    "Mish", "Monomial", "Network", "Polynomial", "Rbf", "RectifiedMonomial", "Relu", "Relu6", "Selu", "Sigmoid",
    "SigmoidLike", "Sign", "Silu", "Sin", "Softplus", "Softsign", "SumPool", "Tanh", "dual", "dual_slope", "from_json",
    "linear", "load_features", "nets", "nt", "parallel", "register", "repeat", "residual", "serial", "sketch", "stax",
]  # fmt: skip
