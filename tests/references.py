"""Reference values: 17 to 20 digits from an independent integrator and from mpmath, and kernels of neural-tangents."""

import json
from functools import cache
from pathlib import Path

import numpy as np

import widelimit as wl

DATA = Path(__file__).parent / "data"

_MAKE = {
    "step": lambda: wl.RectifiedMonomial(0),
    "relu": wl.Relu,
    "rectified_monomial": lambda n: wl.RectifiedMonomial(n),
    "abrelu": lambda A, B: wl.ABRelu(A, B),
    "leaky_relu": lambda A: wl.LeakyRelu(A),
    "abs": wl.Abs,
    "sin": lambda A=1.0, B=1.0, C=0.0: wl.Sin(A, B, C),
    "cos": wl.Cos,
    "rbf": lambda A: wl.Rbf(A),
    "erf": wl.Erf,
    "sigmoid_like": lambda B: wl.SigmoidLike(),
    "gaussian": lambda A: wl.Gaussian(1.0, -A),
    "exp": lambda A: wl.Exp(1.0, A),
    "gelu": wl.Gelu,
    "gelu_tanh": lambda: wl.Gelu(approximate=True),
    "gabor": wl.Gabor,
    "monomial": lambda n: wl.Monomial(n),
    "polynomial": lambda coef: wl.Polynomial(coef),
    "hermite": lambda n: wl.Hermite(n),
    "normalized_gaussian": lambda gamma: wl.ExpNormalized(gamma),
    "elu": lambda alpha: wl.Elu(alpha),
    "selu": lambda alpha, lam: wl.Selu(),
    "celu": lambda alpha: wl.Celu(alpha),
    "tanh": wl.Tanh,
    "sigmoid": wl.Sigmoid,
    "silu": wl.Silu,
    "softplus": wl.Softplus,
    "sqrt2_relu": lambda: wl.ABRelu(0.0, 2**0.5),
}
NUMERICAL = {"elu", "selu", "celu", "tanh", "sigmoid", "silu", "softplus", "gelu_tanh"}


@cache
def values() -> dict:
    return json.loads((DATA / "reference_values.json").read_text())


def activation(row: dict) -> wl.Activation:
    return _MAKE[row["activation"]](**row["params"])


def by_activation(section: str) -> dict[str, list[dict]]:
    """The rows of a section by activation and parameters."""
    groups: dict[str, list[dict]] = {}
    for row in values()[section]:
        groups.setdefault(f"{row['activation']} {json.dumps(row['params'])}", []).append(row)
    return groups


def neural_tangents() -> list[dict]:
    """The kernels of neural-tangents: name, its expression, inputs and both kernels."""
    with np.load(DATA / "nt_kernels.npz") as file:
        count = len({name.split("/")[0] for name in file.files})
        return [
            {key: file[f"case{i}/{key}"] for key in ("x1", "x2", "nngp", "ntk")}
            | json.loads(str(file[f"case{i}/meta"]))
            for i in range(count)
        ]
