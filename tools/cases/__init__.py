"""Random cases of every public door, each made from its number alone.

A case is a function of a random generator that gives a dictionary: arrays, texts, numbers and nests of them, by name. It uses
public names only, so that it runs with any version.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import describe, draw, errors, estimators, features, kernels, regression, tangents

EXACT = "exact"  # kernels, features and what else is computed in one pass: 1e-12 in float64
SOLVED = "solved"  # what comes of solving equations: 1e-8


class Kind(NamedTuple):
    """One kind of cases: what makes one, how near outputs must be, and how many of a hundred are of it."""

    make: Callable[[np.random.Generator], dict[str, Any]]
    nearness: str
    share: int


KINDS = {
    "kernels of rows": Kind(kernels.of_rows, EXACT, 12),
    "kernels of images": Kind(kernels.of_images, EXACT, 9),
    "kernels in tiles": Kind(kernels.in_tiles, EXACT, 6),
    "kernels traced": Kind(kernels.traced, EXACT, 2),
    "activations": Kind(kernels.of_activations, EXACT, 7),
    "finite networks": Kind(kernels.finite, EXACT, 5),
    "features of rows": Kind(features.of_rows, EXACT, 8),
    "features of images": Kind(features.of_images, EXACT, 4),
    "regression on features": Kind(regression.on_features, SOLVED, 5),
    "regression with kernels": Kind(regression.with_kernels, SOLVED, 7),
    "hyperparameters": Kind(regression.hyperparameters, SOLVED, 1),
    "device ridge": Kind(regression.on_device, SOLVED, 3),
    "exact estimators": Kind(estimators.exact, SOLVED, 6),
    "sketched estimators": Kind(estimators.sketched, SOLVED, 6),
    "transformers": Kind(estimators.transformers, EXACT, 2),
    "stax": Kind(tangents.kernels, EXACT, 4),
    "finite stax": Kind(tangents.finite, EXACT, 2),
    "predict": Kind(tangents.predict, SOLVED, 3),
    "errors": Kind(errors.of_bad_input, EXACT, 4),
    "texts": Kind(describe.networks, EXACT, 3),
    "command line": Kind(describe.commands, SOLVED, 1),
}
__all__ = ["KINDS", "draw", "kind_of", "made"]
_HUNDRED = [name for name, kind in KINDS.items() for _ in range(kind.share)]
_ORDER = [_HUNDRED[i] for i in np.random.default_rng(0).permutation(len(_HUNDRED))]


def kind_of(seed: int) -> str:
    """The kind of a case."""
    return _ORDER[seed % len(_ORDER)]


def made(seed: int) -> dict[str, Any]:
    """What a case gives; of one that raises, the type of what it raised."""
    try:
        return KINDS[kind_of(seed)].make(np.random.default_rng(seed))
    except Exception as error:
        return {"raised": type(error).__name__}
