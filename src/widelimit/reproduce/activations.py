"""Figure 4 of the paper: how well the exact kernels of many activations classify a few images of CIFAR-10.

NNGP and NTK of three networks: FC1, one hidden layer; CV8, eight convolutions, flattened; and Myrtle-5. The conventions are
the same for all:

* images are whitened as in `cifar10`, then scaled so that the numbers of each have mean square 1: so have, about, the
  numbers that the first activations see;
* an activation f counts as f / sqrt(E[f(t)^2]), t standard normal, with W_std 1 and no biases: the paper's preliminaries
  assume E[f(t)^2] = 1, and signals keep about their size from layer to layer. FC1, and networks of what is homogeneous,
  predict the same without it; but eight layers of GELU, each of which divides a small variance by four, would be linear;
* ridge regression on one-hot targets, with the penalty chosen on held-out training images.

Names with `*` have their kernels by a square of Gauss-Hermite nodes, as the paper's do, and all others by the closed form or
quadrature of this library. A kernel that overflows, or is constant up to rounding, has no accuracy.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from .. import nets
from ..activations import CATALOGUE, Activation, Rbf, dual
from ..datasets import Images
from ..layers import Flatten
from ..network import Network, serial
from ..numerics import derivative
from ..regression.device import at_edge, chosen_on_held_out, kernel_path, scored
from . import EXPERIMENTS
from .images import average, check_enough, first_images, latest, whiten
from .labels import image_counts, sides
from .quadrature import square_of_nodes
from .study import ImageStudy, Run

NETWORKS: dict[str, Callable[..., Network]] = {
    "FC1": lambda *arguments: serial(Flatten(), nets.fully_connected(1, *arguments)),
    "CV8": partial(nets.conv_flatten, 8),
    "Myrtle-5": partial(nets.myrtle, 5),
}
READINGS = "nngp", "ntk"
PENALTIES = tuple(10.0**power for power in range(-7, 3))
NODES = 16  # along each side of the square
ROUNDINGS = 100  # of the mean diagonal: a kernel that varies less is constant

# Under the paper's names where it has one. Left out of the catalogue: `gelu_tanh` and `celu`, whose kernels are those of GELU
# (to 1e-4) and ELU; `relu6`, which is ReLU for numbers of size 1; and `polynomial`, an example of any.
ACTIVATIONS = {
    "normalised Gaussian": CATALOGUE["exp_normalized"],
    "ABReLU": CATALOGUE["abrelu"],
    "ReLU": CATALOGUE["relu"],
    "leaky ReLU": CATALOGUE["leaky_relu"],
    "GELU": CATALOGUE["gelu"],
    "RBF(1/2)": Rbf(0.5),
    "erf": CATALOGUE["erf"],
    "sigmoid-like": CATALOGUE["sigmoid_like"],
    "Gaussian": CATALOGUE["gaussian"],
    "Gabor": CATALOGUE["gabor"],
    "sin": CATALOGUE["sin"],
    "cos": CATALOGUE["cos"],
    "abs": CATALOGUE["abs"],
    "exp": CATALOGUE["exp"],
    "ReLU²": CATALOGUE["rectified_monomial"],
    "t³": CATALOGUE["monomial"],
    "Hermite 3": CATALOGUE["hermite"],
    "sign": CATALOGUE["sign"],
    "ELU": CATALOGUE["elu"],
    "tanh": CATALOGUE["tanh"],
    "sigmoid": CATALOGUE["sigmoid"],
    "SELU": CATALOGUE["selu"],
    "softplus": CATALOGUE["softplus"],
    "SiLU": CATALOGUE["silu"],
    "Mish": CATALOGUE["mish"],
    "hard tanh": CATALOGUE["hard_tanh"],
    "softsign": CATALOGUE["softsign"],
}
BY_NODES = "ReLU", "GELU", "RBF(1/2)", "erf", "tanh", "sigmoid"
FLAT = "sigmoid-like", "sigmoid", "softplus"  # after some layers float32 cannot tell their kernels from constants
WITHOUT_FORM = "ELU", "tanh", "sigmoid", "SELU", "softplus", "SiLU", "Mish", "hard tanh", "softsign"
CLOSED = tuple(name for name in ACTIVATIONS if name not in WITHOUT_FORM)
MOST = *CLOSED, "ELU", "tanh", "sigmoid"  # three of the paper's without a closed form: each takes long to compile
# Duals for a pair of images: CV8 512 and Myrtle-5 8,500 with 8 x 8 pixels, Myrtle-5 two million with 32 x 32. By nodes, one
# dual is 272 values of f.
SMALL = {"FC1": MOST, "CV8": CLOSED, "Myrtle-5": CLOSED}
FULL = {"FC1": tuple(ACTIVATIONS), "CV8": tuple(ACTIVATIONS), "Myrtle-5": MOST}
SMALL_BY_NODES = {"FC1": BY_NODES, "CV8": (), "Myrtle-5": ()}
FULL_BY_NODES = SMALL_BY_NODES | {"CV8": BY_NODES}
SMALL_SIZES = {
    "FC1": {"pixels": 8, "train": 1000, "test": 2000, "dtype": "float64"},
    "CV8": {"pixels": 8, "train": 500, "test": 1000, "dtype": "float32"},
    "Myrtle-5": {"pixels": 8, "train": 500, "test": 1000, "dtype": "float32"},
}
FULL_SIZES = {name: size | {"pixels": 32, "train": 1000, "test": 1000} for name, size in SMALL_SIZES.items()}
HELD_OUT = 5  # one in so many training images chooses the penalty


class ByNodes(Activation):
    """An activation with its dual and slope by a square of Gauss-Hermite nodes, the paper's `*`."""

    activation: Activation
    nodes: int = eqx.field(static=True)

    def fn(self, t: Array) -> Array:
        return self.activation.fn(t)

    def k(self, a: Array, b: Array, c: Array) -> Array:
        return square_of_nodes(self.activation.fn, self.nodes, a, b, c)

    def k_slope(self, a: Array, b: Array, c: Array) -> Array:
        return square_of_nodes(derivative(self.activation.fn), self.nodes, a, b, c)

    def r(self, std: Array, degree: int) -> Array:
        return self.activation.r(std, degree)


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every network and activation, and for some of these by nodes."""
    names, by_nodes, sizes = (FULL, FULL_BY_NODES, FULL_SIZES) if full else (SMALL, SMALL_BY_NODES, SMALL_SIZES)
    return [
        {"network": network, "activation": name, "nodes": nodes, **sizes[network], "penalties": list(PENALTIES)}
        | ({"dtype": "float64"} if name in FLAT else {})
        for network in NETWORKS
        for nodes, own in ((None, names[network]), (NODES, by_nodes[network]))
        for name in own
    ]


def check(config: dict[str, Any], data: Images) -> None:
    """Refuse more images than there are, and so few that none is held out."""
    check_enough(data, config["train"], config["test"])
    if config["train"] < 2 * HELD_OUT:
        raise ValueError(
            f"--train {config['train']} leaves too few images to choose a penalty. Give {2 * HELD_OUT} or more."
        )


def compute(config: dict[str, Any], data: Images) -> dict[str, Any]:
    """The accuracy of both kernels on the test images."""
    check(config, data)
    train = config["train"]
    x, y = inputs(data, config["pixels"], train, config["test"])
    act = ACTIVATIONS[config["activation"]]
    size = float(dual(act, 1.0, 1.0, 1.0)) ** 0.5
    # Weights of W_std 1 / size on images times size: the kernels of f / size, whose program has a step less in every layer.
    net = NETWORKS[config["network"]](act if config["nodes"] is None else ByNodes(act, config["nodes"]), 1 / size)
    x = (size * x).astype(config["dtype"])
    began = time.perf_counter()
    parts = net.kernel(x[:train]), net.kernel(x[train:], x[:train])
    seconds = time.perf_counter() - began
    rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in READINGS}
    penalties = config["penalties"]
    return {name: classify(K, y, train, train // HELD_OUT, penalties) for name, K in rows.items()} | {
        "seconds": seconds
    }


@latest
def inputs(data: Images, pixels: int, train: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images of either set, of this height, whitened and with mean square 1, and their classes as one-hot rows."""
    check_enough(data, train, test)
    images, labels = first_images(data, train, test)
    x = np.asarray(whiten(average(data.x_train, pixels), average(images, pixels)), np.float64)
    size = np.sqrt(np.mean(x**2, axis=(1, 2, 3), keepdims=True))
    return x / size, np.eye(len(data.names))[labels]


def classify(K: np.ndarray, y: np.ndarray, train: int, held_out: int, penalties: Sequence[float]) -> dict[str, Any]:
    """Accuracy, its standard error, the penalty, and the share of the mean diagonal that centring leaves of the kernel."""
    nothing = {"accuracy": None, "error": None, "penalty": None, "varies": None}
    if not np.isfinite(K).all():
        return nothing
    own = K[:train].astype(np.float64)
    if own.trace() <= 0:
        return nothing | {"varies": 0.0}
    varies = float(1 - own.mean() / own.trace() * train)
    if varies < ROUNDINGS * np.finfo(K.dtype).eps:
        return nothing | {"varies": varies}
    penalty = chosen_on_held_out(kernel_path, K, y[:train], held_out, penalties).chosen
    accuracy = float(scored(kernel_path(K, y[:train], [penalty]), y[train:], [penalty]).accuracies[0])
    error = (accuracy * (1 - accuracy) / (len(y) - train)) ** 0.5
    return {"accuracy": accuracy, "error": error, "penalty": penalty, "varies": varies}


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Accuracies of both kernels in per cent, in the order of the figure."""
    return [
        {
            "network": size[0],
            "images": f"{size[2]:,} of {sides(size[1], size[1])}",
            "activation": label,
            "NTK, %": _accuracy(run, "ntk"),
            "NNGP, %": _accuracy(run, "nngp"),
            "NTK varies": _share(run["ntk"]["varies"]),
            "NNGP varies": _share(run["nngp"]["varies"]),
        }
        for size, rows in _ranking(runs).items()
        for label, run in rows.items()
    ]


def draw(runs: Sequence[Run]) -> Any:
    """A panel for each network, the best NTK on top."""
    from .plots import Estimate, ranked_accuracies

    panels = {}
    for (network, pixels, train, test), rows in _ranking(runs).items():
        title = f"{network}\n{image_counts(train, test)}, {sides(pixels, pixels)}"
        panels[title] = {
            label: {name.upper(): Estimate(run[name]["accuracy"], run[name]["error"], _failure(run[name]), _is_bound(run, name))
                    for name in reversed(READINGS)}
            for label, run in rows.items()
        }  # fmt: skip
    title = "CIFAR-10 by activation\nbars: a standard error; *: by Gauss-Hermite nodes"
    if any(_is_bound(run, name) for run in runs for name in READINGS):
        title += "\nhollow: the least or the largest penalty was chosen"
    return ranked_accuracies(panels, title)


def _ranking(runs: Sequence[Run]) -> dict[tuple[str, int, int, int], dict[str, Run]]:
    """The last runs of every network and size by name, those with the best NTK first and those without one last."""
    groups: dict[tuple[str, int, int, int], dict[str, Run]] = {}
    for run in runs:
        config = run["config"]
        size = config["network"], config["pixels"], config["train"], config["test"]
        label, own = config["activation"] + ("" if config["nodes"] is None else "*"), groups.setdefault(size, {})
        other = own[label]["config"] if label in own else config
        label += f", {config['dtype']}" * (other["dtype"] != config["dtype"])
        label += f", penalties from {min(config['penalties']):g}" * (other["penalties"] != config["penalties"])
        own[label] = run
    order = list(NETWORKS)
    return {
        size: dict(sorted(groups[size].items(), key=lambda item: -(item[1]["ntk"]["accuracy"] or 0)))
        for size in sorted(groups, key=lambda size: (size[1], order.index(size[0]), size[2:]))
    }


def _failure(result: dict[str, Any]) -> str:
    """Why there is no accuracy; empty where there is one."""
    if result["accuracy"] is not None:
        return ""
    return "overflows" if result["varies"] is None else "constant"


def _accuracy(run: Run, kernel: str) -> str:
    """An accuracy and its error; ≥ stands where the least or the largest penalty was chosen, and others might do better."""
    result = run[kernel]
    if failure := _failure(result):
        return failure
    return f"{'≥ ' * _is_bound(run, kernel)}{100 * result['accuracy']:.1f} ± {100 * result['error']:.1f}"


def _is_bound(run: Run, kernel: str) -> bool:
    """Whether the accuracy is a lower bound."""
    return run[kernel]["accuracy"] is not None and at_edge(run[kernel]["penalty"], run["config"]["penalties"])


def _share(varies: float | None) -> str:
    return "" if varies is None else f"{varies:.2g}"


CLAIM = (
    "The paper: the normalised Gaussian is best for every network, what is like ReLU does well, what is like a sigmoid badly; "
    "Gauss-Hermite quadrature does as well as closed forms, except for the NTK of ReLU in FC1."
)
OPTIONS = {
    "train": "training images, for every network (1000 and 500; with --full 1000)",
    "test": "test images (2000 and 1000; with --full 1000)",
}
STUDY = ImageStudy(
    "activations", EXPERIMENTS["activations"], CLAIM, draw, table, settings, compute, True, OPTIONS, check
)
