"""Every activation, by class and by name.

`CATALOGUE` holds one example of each, under the name that presets and estimators accept as text. To add an activation, write
its class in the module of its family, import it here, and give it a place in `__all__` and in the catalogue. The conformance
tests, the names in `widelimit` and the tables of README and docs follow from these.
"""

import difflib

from .base import Activation, dual, dual_slope
from .base import moment_dual as moment_dual
from .base import moment_slope as moment_slope
from .bells import Erf, Gabor, Gaussian, Gelu, SigmoidLike
from .elu import Celu, Elu, Selu
from .numerical import Elementwise, HardTanh, Mish, Relu6, Sigmoid, Silu, Softplus, Softsign, Tanh
from .open import Affine, FromDual
from .polynomial import Hermite, Monomial, Polynomial
from .rectified import ABRelu, Abs, LeakyRelu, RectifiedMonomial, Relu, Sign
from .waves import Cos, Exp, ExpNormalized, Rbf, Sin

# What `widelimit` exports too. The other names of this module are for the rest of the library.
__all__ = [
    "ABRelu",
    "Abs",
    "Activation",
    "Affine",
    "Celu",
    "Cos",
    "Elementwise",
    "Elu",
    "Erf",
    "Exp",
    "ExpNormalized",
    "FromDual",
    "Gabor",
    "Gaussian",
    "Gelu",
    "HardTanh",
    "Hermite",
    "LeakyRelu",
    "Mish",
    "Monomial",
    "Polynomial",
    "Rbf",
    "RectifiedMonomial",
    "Relu",
    "Relu6",
    "Selu",
    "Sigmoid",
    "SigmoidLike",
    "Sign",
    "Silu",
    "Sin",
    "Softplus",
    "Softsign",
    "Tanh",
    "dual",
    "dual_slope",
    "register",
]

CATALOGUE: dict[str, Activation] = {
    "relu": Relu(),
    "leaky_relu": LeakyRelu(0.1),
    "abrelu": ABRelu(-0.095917364117, 1.410957072083),  # the dual nearest to ExpNormalized's
    "abs": Abs(),
    "sign": Sign(),
    "rectified_monomial": RectifiedMonomial(2),
    "monomial": Monomial(3),
    "polynomial": Polynomial((0.5, -1.0, 0.25, 0.75)),
    "hermite": Hermite(3),
    "erf": Erf(),
    "sigmoid_like": SigmoidLike(),
    "gelu": Gelu(),
    "gelu_tanh": Gelu(approximate=True),
    "sin": Sin(),
    "cos": Cos(),
    "rbf": Rbf(),
    "gaussian": Gaussian(),
    "exp": Exp(),
    "exp_normalized": ExpNormalized(),
    "gabor": Gabor(),
    "elu": Elu(),
    "selu": Selu(),
    "celu": Celu(),
    "tanh": Tanh(),
    "sigmoid": Sigmoid(),
    "softplus": Softplus(),
    "silu": Silu(),
    "mish": Mish(),
    "hard_tanh": HardTanh(),
    "relu6": Relu6(),
    "softsign": Softsign(),
}

_ALSO_CALLED = {"swish": "silu", "step": "rectified_monomial", "identity": "Identity()", "linear": "Identity()"}
_registered: dict[str, Activation] = {}


def register(name: str, activation: Activation) -> Activation:
    """Give an activation a name, by which presets know it; one that holds a function becomes JSON under it.

    A name given again means the new activation from then on, so that a notebook's cell can be run twice.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"register takes a name, such as 'my_activation', not {name!r}.")
    if not isinstance(activation, Activation):
        raise TypeError(f"register takes an activation, such as Elementwise(fn), not {activation!r}.")
    if name in CATALOGUE:
        raise ValueError(f"{name!r} is the name of {CATALOGUE[name]!r}. Choose another name.")
    _registered[name] = activation
    return activation


def registered_name(activation: Activation) -> str | None:
    """The name under which this very activation was registered, if it was."""
    return next((name for name, known in _registered.items() if known is activation or known == activation), None)


def named(name: str) -> Activation:
    """The activation of this name, from the catalogue or registered."""
    known = CATALOGUE | _registered
    if name not in known:
        near = [_ALSO_CALLED[name]] if name in _ALSO_CALLED else difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(known))}."
        raise ValueError(f"There is no activation named {name!r}. {hint} A function of your own: Elementwise(fn).")
    return known[name]
