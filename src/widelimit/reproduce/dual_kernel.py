"""Figure 1 of the paper: how fast Hermite expansions and random samples approach the dual kernel of an activation.

K(x, y) = E[f(w . x) f(w . y)] of n random inputs, to degree q or with m samples of w, against the closed form:

* `fixed`: the paper's. f is replaced by its Hermite series at radius 1, and the dual kernel of the series is computed exactly;
* `adaptive`: ours. The coefficients are those at the radius of each input, r_l(a) of `hermite`;
* `compensated`: ours, with the part that is missing on the diagonal added to the first power that is left out;
* `samples`: the mean over m random w, as of a random network of one layer.

The paper's inputs have norms near 1, where the first two agree. The second row of inputs, with norms from 0.3 to 3, is the case
that it leaves out.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..activations import Activation, dual, named
from ..activations.hermite import hermite
from . import EXPERIMENTS
from .labels import differs
from .study import Run, Study
from .timing import time_second_call

ACTIVATIONS = "relu", "abs", "sin", "gaussian", "erf", "gelu"
NORMS = {"near 1": None, "0.3 to 3": (0.3, 3.0)}
DEGREES = tuple(range(1, 21))
SAMPLES = tuple(2**power for power in range(4, 15, 2))
SERIES = "fixed", "adaptive", "compensated"


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every activation, range of norms and trial."""
    rows, dimension, trials = (1000, 256, 10) if full else (300, 256, 3)
    return [
        {
            "activation": name,
            "norms": norms,
            "trial": trial,
            "rows": rows,
            "dimension": dimension,
            "degrees": list(DEGREES),
            "samples": list(SAMPLES),
        }
        for name, norms, trial in product(ACTIVATIONS, NORMS, range(trials))
    ]


def compute(config: dict[str, Any]) -> dict[str, Any]:
    """Relative errors in the Frobenius norm, and seconds, of every degree and number of samples."""
    act, rng = named(config["activation"]), np.random.default_rng(config["trial"])
    x = rng.normal(size=(config["rows"], config["dimension"])) / config["dimension"] ** 0.5
    limits = NORMS[config["norms"]]
    if limits is not None:
        x *= rng.uniform(*limits, size=(len(x), 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    norms = np.linalg.norm(x, axis=1)
    cosines = np.clip(x @ x.T / np.outer(norms, norms), -1, 1)
    np.fill_diagonal(cosines, 1)
    with jax.enable_x64(True):
        exact = np.asarray(dual(act, norms[:, None], norms[None, :], cosines))

    def measure(approximate: Callable[[int], np.ndarray], efforts: Sequence[int]) -> dict[str, list[float]]:
        kernels, seconds = zip(*(time_second_call(partial(approximate, effort)) for effort in efforts), strict=True)
        errors = [float(np.linalg.norm(kernel - exact) / np.linalg.norm(exact)) for kernel in kernels]
        return {"errors": errors, "seconds": list(seconds)}

    series = {kind: measure(partial(by_series, kind, act, norms, cosines), config["degrees"]) for kind in SERIES}
    return series | {"samples": measure(partial(by_samples, act, x, rng), config["samples"])}


def by_series(kind: str, act: Activation, norms: np.ndarray, cosines: np.ndarray, degree: int) -> np.ndarray:
    """The kernel to a degree: the sum of r_l(a) r_l(b) c^l."""
    if kind == "fixed":
        r = fixed_coefficients(act, norms, degree)
    else:
        with jax.enable_x64(True):
            r = np.asarray(act.radial(norms, degree + 2))
    kernel = np.zeros_like(cosines)
    if kind == "compensated":
        missing = (r[:, degree + 1 :] ** 2).sum(0)
        power = degree + 1 + int(np.argmax(missing > 1e-20 * missing.max()))  # even and odd functions skip every other
        with jax.enable_x64(True):
            whole = np.asarray(dual(act, norms, norms, np.ones_like(norms)))
        rest = np.sqrt(np.maximum(whole - (r[:, : degree + 1] ** 2).sum(1), 0))
        kernel = np.outer(rest, rest) * cosines ** (power - degree)
    for l in range(degree, -1, -1):  # Horner's rule: whatever has c in excess of l so far
        kernel = kernel * cosines if l < degree else kernel
        kernel += np.outer(r[:, l], r[:, l])
    return kernel


def fixed_coefficients(act: Activation, norms: np.ndarray, degree: int) -> np.ndarray:
    """r_l of the Hermite series of f at radius 1, cut off after a degree, at other radii.

    The series is a polynomial, whose coefficients at any radius a rule of Gauss and Hermite of degree + 1 points gives.
    """
    with jax.enable_x64(True):
        own = np.asarray(act.radial(np.ones(1), degree))[0]
    points, weights = np.polynomial.hermite_e.hermegauss(degree + 1)
    weights = weights / weights.sum()
    values = np.tensordot(own, np.stack(hermite(max(degree, 1), norms[:, None] * points)[: degree + 1]), 1)
    return values @ (weights * np.stack(hermite(max(degree, 1), points)[: degree + 1])).T


def by_samples(act: Activation, x: np.ndarray, rng: np.random.Generator, samples: int) -> np.ndarray:
    """The kernel as a mean over random directions."""
    with jax.enable_x64(True):
        features = np.asarray(act.fn(jnp.asarray(x @ rng.normal(size=(x.shape[1], samples)))))
    return features @ features.T / samples


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Mean errors over trials with some degrees, and with most samples."""
    rows = []
    for (name, norms, count), own in _groups(runs).items():
        degrees, samples = own[0]["config"]["degrees"], own[0]["config"]["samples"]
        errors = {kind: np.mean([run[kind]["errors"] for run in own], axis=0) for kind in (*SERIES, "samples")}
        rows.append(
            {"activation": name, "norms": norms, "inputs": count, "trials": len(own)}
            | {f"{kind}, degree {q}": float(errors[kind][degrees.index(q)]) for q in (8, 20) for kind in SERIES}
            | {f"{samples[-1]} samples": float(errors["samples"][-1])}
        )
    return rows


def draw(runs: Sequence[Run]) -> Any:
    """Errors by degree and by seconds: a column for each activation, two rows for each range of norms."""
    from .plots import Curve, error_curves

    panels: dict[tuple[str, str], dict[str, Curve]] = {}
    groups = _groups(runs)
    several = differs([str(count) for *_, count in groups])
    for (name, norms, count), own in groups.items():
        row = f"{count} inputs, norms {norms}" if several else f"norms {norms}"
        for kind in (*SERIES, "samples"):
            errors = np.array([run[kind]["errors"] for run in own])
            seconds = np.median([run[kind]["seconds"] for run in own], axis=0)
            if kind in SERIES:
                degrees = np.array(own[0]["config"]["degrees"])
                panels.setdefault((f"{row}, by degree", name), {})[kind] = Curve(degrees, errors)
            panels.setdefault((f"{row}, by seconds", name), {})[kind] = Curve(seconds, errors)
    return error_curves(panels, "Relative error of the dual kernel: the mean over trials, and all of them as a band")


def _groups(runs: Sequence[Run]) -> dict[tuple[str, str, int], list[Run]]:
    """The trials of every activation, range of norms and number of inputs, in the paper's order."""
    groups: dict[tuple[str, str, int], list[Run]] = {}
    counts = sorted({run["config"]["rows"] for run in runs})
    for count, norms, name in product(counts, NORMS, ACTIVATIONS):
        place = name, norms, count
        own = [r for r in runs if (r["config"]["activation"], r["config"]["norms"], r["config"]["rows"]) == place]
        groups |= {place: own} if own else {}
    return groups


CLAIM = (
    "The paper: the error of the expansion falls exponentially for smooth activations and as a power of the degree for others, "
    "and is below that of samples at equal time."
)
STUDY = Study("dual-kernel", EXPERIMENTS["dual-kernel"], CLAIM, draw, table, settings, compute)
