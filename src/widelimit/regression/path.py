"""Solutions for several penalties, and what each is scored by: generalised cross-validation, leave-one-out, rows left out."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from .arrays import Penalties, Scores


class Path(NamedTuple):
    """A solution for every penalty, (penalties, rows or features, outputs), and its score, lower is better.

    Penalties are absolute. Solutions are NaN where a penalty is too small for a factor, and scores where nothing scored them.
    """

    penalties: Penalties
    solutions: Float[Array | np.ndarray, "penalties columns outputs"]
    scores: Scores

    @property
    def lowest(self) -> int:
        """The index of the lowest score."""
        return lowest(self.scores)

    @property
    def best(self) -> Float[Array | np.ndarray, "columns outputs"]:
        """The solution of the lowest score."""
        return self.solutions[self.lowest]


class RidgePath(NamedTuple):
    """Solutions for several penalties: weights (penalties, features, outputs), and a score of each, lower is better."""

    penalties: Penalties
    weights: Float[np.ndarray, "penalties features outputs"]
    scores: Scores

    @property
    def best(self) -> Float[np.ndarray, "features outputs"]:
        """The weights of the lowest score."""
        return self.weights[lowest(self.scores)]


class KernelPath(NamedTuple):
    """Solutions for several penalties: coefficients (penalties, n, outputs) of K(x, rows), and scores, lower is better."""

    penalties: Penalties
    coefficients: Float[np.ndarray, "penalties n outputs"]
    scores: Scores

    @property
    def chosen(self) -> int:
        """The index of the lowest score."""
        return lowest(self.scores)


def lowest(*scores: Scores) -> int:
    """The index of the lowest of the first scores; of equal ones, by the next scores, and then the first index."""
    return int(np.lexsort(scores[::-1])[0])


def gcv(rows: float, residual: float, freedom: float) -> float:
    """Generalised cross-validation, n residual / (n - degrees of freedom)^2 (Golub, Heath and Wahba, 1979)."""
    left = rows - freedom
    return float(rows * max(residual, 0.0) / left**2) if left > 1e-9 * max(rows, 1) else float("inf")


def leave_one_out(residual: Float[np.ndarray, "n outputs"], left: Float[np.ndarray, " n"], least: float) -> float:
    """The squared error of every row under the solution without it, summed: its error with it over `left` = 1 - h.

    h is what the row says about its own prediction. A row that alone decides its direction has h = 1: it is learned by heart
    and says nothing about others, so the score is infinite where 1 - h is `least` or below.
    """
    if np.any(left <= least):
        return float("inf")
    return float(np.sum((residual / left[:, None]) ** 2))
