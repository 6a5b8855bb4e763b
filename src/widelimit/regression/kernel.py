"""Ridge regression with a kernel matrix on the host: one eigendecomposition of S K S serves all penalties and scores."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from .arrays import ArrayLike, Penalties, Scores, Targets, Weight
from .objective import Centred, Mean, Unit, absolute_penalties, effective_rows, target_mean
from .path import KernelPath, Path, gcv, leave_one_out
from .spectrum import Spectrum, decompose

By = Literal["loo", "gcv"] | int  # a number is that of the folds


class KernelProblem(NamedTuple):
    """A kernel matrix, targets and weights, centred as requested, which can be solved for any penalties."""

    K: Float[np.ndarray, "n n"]
    y: Targets
    weight: Weight
    mean: Mean
    spectrum: Spectrum  # of S K S, S = W^(1/2)

    @property
    def diagonal(self) -> float:
        """The mean diagonal of the kernel, by which shares are multiplied."""
        return float(self.weight @ np.diag(self.K) / max(effective_rows(self.weight).sum(), 1))

    def path(self, penalties: ArrayLike, unit: Unit, by: By) -> Path:
        """The solutions, coefficients of K(x, rows), and their scores."""
        absolute = absolute_penalties(penalties, unit, self.diagonal)
        if isinstance(by, str) or not 2 <= by <= len(self.y):
            if by not in ("loo", "gcv"):
                raise ValueError(
                    f"by is 'loo', 'gcv' or a number of folds from 2 to the number of rows {len(self.y)}, not {by!r}."
                )
            scores = self._scores(absolute, by)
        else:
            scores = self._scores_by_folds(absolute, by)
        root = np.sqrt(self.weight)[:, None]
        solutions = root * self.spectrum.solve(root * self.y, absolute)
        if np.any(self.mean.rows):  # the coefficients of centred rows add up to 0, but for rounding
            solutions -= (self.weight / self.weight.sum())[:, None] * solutions.sum(1, keepdims=True)
        return Path(absolute, solutions, scores)

    def half_inverse(self, penalty: float) -> Float[np.ndarray, "n n"]:
        """H with H H^T = (K + penalty W^-1)^-1."""
        (inverse,) = self.spectrum.inverses(np.array([penalty]))
        return np.sqrt(self.weight)[:, None] * self.spectrum.vectors * np.sqrt(inverse)

    def _scores(self, penalties: Penalties, by: By) -> Scores:
        vectors, counts, seen = self.spectrum.vectors, effective_rows(self.weight), self.weight > 0
        rotated = vectors.T @ (np.sqrt(self.weight)[:, None] * self.y)
        squares = vectors**2 if by == "loo" else None
        scores = []
        for penalty, inverse in zip(penalties, self.spectrum.inverses(penalties), strict=True):
            rest = np.where(inverse > 0, penalty * inverse, 1.0)  # 1 - value / (value + penalty), without cancellation
            residual = vectors @ (rest[:, None] * rotated)  # S (y - f)
            if squares is None:
                scores.append(gcv(counts.sum(), np.sum(residual**2), len(self.y) - np.sum(rest)))
            else:  # squares @ rest is 1 - w h; of a weight above 1 only 1 is left out
                left = (counts - 1 + squares @ rest)[seen] / counts[seen]
                scores.append(leave_one_out(residual[seen], left, 0.0) / max(counts.sum(), 1))
        return np.array(scores)

    def _scores_by_folds(self, penalties: Penalties, folds: int) -> Scores:
        w, errors = self.weight, np.zeros(len(penalties))
        fold = (np.cumsum(w > 0) - 1) % folds  # rows of weight 0 take no turn
        for k in range(folds):
            kept, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            root = np.sqrt(w[kept])[:, None]
            spectrum = decompose(root * self.K[np.ix_(kept, kept)] * root.T)
            solutions = root * spectrum.solve(root * self.y[kept], penalties)
            predicted = self.K[np.ix_(out, kept)] @ solutions
            errors += np.sum(w[out, None] * (predicted - self.y[out]) ** 2, axis=(1, 2))
        return errors / max(effective_rows(w).sum(), 1)


def kernel_problem(
    K: ArrayLike,
    y: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    centred: Centred = "nothing",
    spectrum: Spectrum | None = None,
) -> KernelProblem:
    """Check a kernel matrix, (n, n), and targets, (n,) or (n, outputs); centre and decompose them.

    `spectrum` is that of the weighted matrix, where it is known.
    """
    matrix, targets = np.asarray(K, np.float64), np.asarray(y, np.float64)
    targets = targets[:, None] if targets.ndim == 1 else targets
    w = np.ones(len(targets)) if weight is None else np.asarray(weight, np.float64)
    n = len(targets)
    if matrix.shape != (n, n) or w.shape != (n,):
        raise ValueError(
            f"K is (n, n) for n targets, and a weight is one for each, not {matrix.shape}, {targets.shape}, {w.shape}."
        )
    mean = Mean(np.zeros(n), target_mean(targets, w, centred))
    if centred == "all":
        share = w / w.sum()
        rows = matrix @ share
        half = rows - rows @ share / 2
        matrix, mean = matrix - half[:, None] - half, Mean(rows, mean.targets)
    if spectrum is None:
        root = np.sqrt(w)
        spectrum = decompose(root[:, None] * matrix * root)
    return KernelProblem(matrix, targets - mean.targets, w, mean, spectrum)


def kernel_ridge(
    K: ArrayLike,
    y: ArrayLike,
    penalties: ArrayLike,
    weight: ArrayLike | None = None,
    by: By = "loo",
    found: Spectrum | None = None,
) -> KernelPath:
    """Kernel ridge regression on the rows of K, (n, n), with targets y, (n,) or (n, outputs).

    `by` says how penalties are scored: "loo", the mean squared error of every row under the solution without it, exactly;
    "gcv", generalised cross-validation; or a number of folds, to which rows belong by turns. `found` is the spectrum of
    S K S, S = W^(1/2), where it is known.
    """
    path = kernel_problem(K, y, weight, spectrum=found).path(penalties, "absolute", by)
    return KernelPath(path.penalties, np.asarray(path.solutions), path.scores)
