"""Figure 3 of the paper: dual kernels by Gauss-Hermite quadrature, for one hidden layer and through Myrtle-5.

E[f(u) f(v)], an integral over a plane, is computed with q

* nodes for each of two independent normal variables, the same for every pair: `Gauss-Hermite`, the paper's;
* rays in every sector between the lines u = 0 and v = 0, where kinks lie, for ReLU and Abs, or degrees of the Hermite series at
  the radii of the pair, for smooth activations: `ours`, the two methods of `activations.quadrature`.

`ours, chosen` is `wl.Elementwise` of the same function, which is given the places of its kinks and chooses in each call between
64 rays and a degree of 56, 288 or 480.

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
from ..activations import Elementwise, FromDual, named
from ..activations.hermite import radial, series
from ..activations.quadrature import sectors
from ..network import Network
from ..numerics import safe_sqrt
from . import EXPERIMENTS
from .dual_kernel import ACTIVATIONS
from .labels import differs, sides
from .study import Run, Study
from .timing import time_second_call

NODES = 2, 4, 8, 16, 32, 64
NETWORKS = {"one hidden layer": partial(nets.fully_connected, 1), "Myrtle-5": partial(nets.myrtle, 5)}
KINKED = "relu", "abs"
THEIRS, OURS = "Gauss-Hermite", "ours"
CHOSEN = "ours, chosen"


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
            "seed": 0,
        }
        for network, name in product(NETWORKS, ACTIVATIONS)
    ]


def compute(config: dict[str, Any]) -> dict[str, Any]:
    """Errors and seconds of every number of nodes, rays or degrees, and of what `Elementwise` chooses."""
    act, build = named(config["activation"]), NETWORKS[config["network"]]
    x = np.random.default_rng(config["seed"]).normal(size=(config["inputs"], *config["shape"]))
    exact = build(act).kernel(x, get="nngp")

    def measure(net: Network) -> dict[str, float]:
        kernel, seconds = time_second_call(lambda: net.kernel(x, get="nngp"))
        return {"error": float(np.linalg.norm(kernel - exact) / np.linalg.norm(exact)), "seconds": seconds}

    kinked = config["activation"] in KINKED
    rules = {THEIRS: square_of_nodes, OURS: sectors_of_rays if kinked else series_of_degree}
    by_q = {
        name: [measure(build(by_rule(partial(rule, act.fn, nodes)))) for nodes in config["nodes"]]
        for name, rule in rules.items()
    }
    by_itself = measure(build(Elementwise(act.fn, kinks=(0.0,) if kinked else ())))
    columns = {
        name: {key: [result[key] for result in results] for key in ("error", "seconds")}
        for name, results in by_q.items()
    }
    return columns | {CHOSEN: by_itself}


def by_rule(rule: Callable[[Array, Array, Array], Array]) -> FromDual:
    """The activation whose dual is rule(a, b, c)."""

    def dual(cov: Array, var1: Array, var2: Array) -> Array:
        a, b = safe_sqrt(var1), safe_sqrt(var2)
        return rule(a, b, jnp.clip(cov / (a * b), -1, 1))

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


def sectors_of_rays(fn: Callable[[Array], Array], nodes: int, a: Array, b: Array, c: Array) -> Array:
    """E[f(u) f(v)] by so many rays in every sector, drawn towards its ends as `Elementwise` draws its 64."""
    a, b, c = jnp.broadcast_arrays(a, b, c)
    return sectors(fn, fn, (), a, b, c, nodes=nodes, power=3)


def series_of_degree(fn: Callable[[Array], Array], degree: int, a: Array, b: Array, c: Array) -> Array:
    """E[f(u) f(v)] by the Hermite series at radii a and b up to a degree."""
    return series(radial(fn, a, degree), radial(fn, b, degree), c)


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Errors for some numbers of nodes and for what `Elementwise` chooses, with seconds."""
    rows = []
    for run in runs:
        config = run["config"]
        row = {"network": config["network"], "inputs": label(run), "activation": config["activation"]}
        places = {q: config["nodes"].index(q) for q in (4, 16, 64)}
        for name in (THEIRS, OURS):
            row |= {f"{name}, q = {q}": run[name]["error"][place] for q, place in places.items()}
        theirs = run[THEIRS]["seconds"][places[64]]
        seconds = {f"{THEIRS}, q = 64, s": theirs, f"{CHOSEN}, s": run[CHOSEN]["seconds"]}
        rows.append(row | {CHOSEN: run[CHOSEN]["error"]} | seconds)
    return rows


def draw(runs: Sequence[Run]) -> Any:
    """Errors by the number of nodes, a panel for each network and activation; what `Elementwise` chooses is a line across."""
    from .plots import Curve, error_curves

    panels = {}
    several = any(differs([label(run) for run in runs if run["config"]["network"] == name]) for name in NETWORKS)
    for run in runs:
        config = run["config"]
        nodes = np.array(config["nodes"])
        row = f"{config['network']}{f', {label(run)}' if several else ''}, by q"
        curves = {name: Curve(nodes, np.array([run[name]["error"]])) for name in (THEIRS, OURS)}
        panels[row, config["activation"]] = curves | {
            CHOSEN: Curve(nodes[[0, -1]], np.full((1, 2), run[CHOSEN]["error"]))
        }
    return error_curves(
        panels,
        "Relative error of the NNGP by q: Gauss-Hermite nodes along each side, our rays (relu, abs) or degrees (others)",
    )


def label(run: Run) -> str:
    """The number of inputs and their shape."""
    return f"{run['config']['inputs']} of {sides(*run['config']['shape'])}"


CLAIM = (
    "The paper: with more nodes the error falls exponentially for smooth activations, and as a power for ReLU and Abs."
)
STUDY = Study("quadrature", EXPERIMENTS["quadrature"], CLAIM, draw, table, settings, compute)
