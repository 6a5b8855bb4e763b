"""Figure 3 of the paper: dual kernels by Gauss-Hermite quadrature, for one hidden layer and through Myrtle-5.

With q nodes for each of two independent normal variables, E[f(u) f(v)] is a sum of q^2 terms:

* `Gauss-Hermite`: the paper's, the same nodes for every pair;
* `ours`: `wl.Elementwise` of the same function, told where it has kinks and nothing else; it chooses between a Hermite series
  and quadrature that follows the kinks in each call.

Errors are those of the NNGP against the closed form, relative in the Frobenius norm.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import nets
from ..activations import Activation, Elementwise, FromDual, named
from ..network import Network
from ..numerics import safe_sqrt
from .dual_kernel import ACTIVATIONS
from .study import Run, Study, run_study
from .timing import timed

NODES = 2, 4, 8, 16, 32, 64
NETWORKS = {"one hidden layer": partial(nets.fully_connected, 1), "Myrtle-5": partial(nets.myrtle, 5)}
KINKED = "relu", "abs"
OURS, THEIRS = "ours", "Gauss-Hermite"


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every activation and network."""
    sizes = {"one hidden layer": (300, (256,)), "Myrtle-5": (10, (8, 8, 3))}
    if full:
        sizes = {"one hidden layer": (1000, (256,)), "Myrtle-5": (10, (32, 32, 3))}
    return [
        {
            "activation": name,
            "network": network,
            "inputs": sizes[network][0],
            "shape": list(sizes[network][1]),
            "nodes": list(NODES),
        }
        for network, name in product(NETWORKS, ACTIVATIONS)
    ]


def compute(config: dict[str, Any]) -> dict[str, Any]:
    """Errors and seconds of every number of nodes, and of ours."""
    act, build = named(config["activation"]), NETWORKS[config["network"]]
    x = np.random.default_rng(0).normal(size=(config["inputs"], *config["shape"]))
    exact = build(act).kernel(x, get="nngp")

    def measured(net: Network) -> dict[str, float]:
        found, seconds = timed(lambda: net.kernel(x, get="nngp"))
        return {"error": float(np.linalg.norm(found - exact) / np.linalg.norm(exact)), "seconds": seconds}

    by_nodes = [measured(build(gauss_hermite(act, nodes))) for nodes in config["nodes"]]
    own = measured(build(Elementwise(act.fn, kinks=(0.0,) if config["activation"] in KINKED else ())))
    return {
        THEIRS: {name: [found[name] for found in by_nodes] for name in ("error", "seconds")}, OURS: own
    }  # fmt: skip


def gauss_hermite(act: Activation, nodes: int) -> FromDual:
    """The activation with its dual by a square of nodes."""

    def dual(cov: Array, var1: Array, var2: Array) -> Array:
        a, b = safe_sqrt(var1), safe_sqrt(var2)
        return square_of_nodes(act.fn, nodes, a, b, jnp.clip(cov / (a * b), -1, 1))

    return FromDual(dual)


def square_of_nodes(fn: Callable[[Array], Array], nodes: int, a: Array, b: Array, c: Array) -> Array:
    """E[f(u) f(v)] for standard deviations a, b and cosine c, by so many nodes for each of two independent variables."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    t, w = (jnp.asarray(values, c.dtype) for values in (points, weights / weights.sum()))
    along, across = b * c, b * safe_sqrt((1 - c) * (1 + c))

    nothing = jnp.zeros(jnp.broadcast_shapes(a.shape, b.shape, c.shape), c.dtype)

    def row(i: Any, total: Array) -> Array:
        def term(j: Any, inner: Array) -> Array:
            return inner + w[j] * fn(along * t[i] + across * t[j])

        return total + w[i] * fn(a * t[i]) * jax.lax.fori_loop(0, nodes, term, nothing)

    return jax.lax.fori_loop(0, nodes, row, nothing)


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Errors with some numbers of nodes beside ours."""
    return [
        {"network": run["config"]["network"], "inputs": _spoken(run), "activation": run["config"]["activation"]}
        | {f"{nodes} nodes": run[THEIRS]["error"][run["config"]["nodes"].index(nodes)] for nodes in (4, 16, 64)}
        | {"its seconds": run[THEIRS]["seconds"][-1], OURS: run[OURS]["error"], "our seconds": run[OURS]["seconds"]}
        for run in runs
    ]


def draw(runs: Sequence[Run]) -> Any:
    """Errors by the number of nodes, a panel for each network and activation; ours as a line across."""
    from ..plots import Curve, error_curves

    panels = {}
    several = len({_spoken(run) for run in runs}) > len({run["config"]["network"] for run in runs})
    for run in runs:
        config = run["config"]
        nodes = np.array(config["nodes"])
        row = f"{config['network']}{f', {_spoken(run)}' if several else ''}, by nodes"
        panels[row, config["activation"]] = {
            THEIRS: Curve(nodes, np.array([run[THEIRS]["error"]])),
            OURS: Curve(nodes[[0, -1]], np.full((1, 2), run[OURS]["error"])),
        }
    return error_curves(panels, "Relative error of the NNGP by quadrature")


def _spoken(run: Run) -> str:
    config = run["config"]
    return f"{config['inputs']} of {' x '.join(map(str, config['shape']))}"


SHOWN = Study(
    "quadrature",
    "Figure 3: dual kernels by quadrature",
    "The paper: with more nodes the error falls exponentially for smooth activations, and as a power for ReLU and Abs.",
    draw,
    table,
    settings,
    compute,
)
run_command = partial(run_study, SHOWN)
