"""Ridge regression with a kernel matrix: solutions for many penalties from one eigendecomposition, each with a score.

With weights w the problem is min sum_i w_i (y_i - f_i)^2 + penalty |f|^2, solved by (K + penalty W^-1) a = y, f = K a. In
the symmetric form used here, (S K S + penalty) b = S y with S = W^(1/2) and a = S b, rows of weight 0 drop out.

A row of weight w >= 1 counts as w rows, so whole weights give what repeated rows give, scores included; one of less weight
is one row that is trusted less.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from .sums import effective_rows, gcv, inverses, penalties_of

_HOW = ("loo", "gcv")


class KernelPath(NamedTuple):
    """Solutions for several penalties: coefficients (penalties, n, outputs) of K(x, rows), and scores, lower is better."""

    penalties: np.ndarray
    coefficients: np.ndarray
    scores: np.ndarray

    @property
    def chosen(self) -> int:
        """The place of the lowest score."""
        return int(np.argmin(self.scores))


class Decomposition(NamedTuple):
    """S K S with S = W^(1/2): its eigenvalues, at least 0, its eigenvectors, and the diagonal of S."""

    values: np.ndarray
    vectors: np.ndarray
    root: np.ndarray

    def half(self, penalty: float) -> np.ndarray:
        """H with H H^T = (K + penalty W^-1)^-1."""
        (inverse,) = inverses(self.values, np.array([penalty]))
        return self.root[:, None] * self.vectors * np.sqrt(inverse)


def decomposed(K: np.ndarray, w: np.ndarray) -> Decomposition:
    """Decompose a kernel matrix with the weights of its rows."""
    root = np.sqrt(w)
    symmetric = root[:, None] * np.asarray(K, np.float64) * root
    values, vectors = linalg.eigh(symmetric, driver="evd", check_finite=False)
    return Decomposition(np.maximum(values, 0), vectors, root)


def kernel_ridge(
    K: Any, y: Any, penalties: Any, weight: Any = None, by: str | int = "loo", found: Decomposition | None = None
) -> KernelPath:
    """Kernel ridge regression on the rows of K, (n, n), with targets y, (n,) or (n, outputs).

    `by` says how penalties are scored: "loo", the mean squared error of every row under the solution without it, exactly;
    "gcv", generalised cross-validation; or a number of folds, to which rows belong by turns. `found` is the decomposition,
    where it is known.
    """
    K, y = np.asarray(K, np.float64), np.asarray(y, np.float64)
    y = y[:, None] if y.ndim == 1 else y
    w = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    if K.shape != (len(y), len(y)) or w.shape != (len(y),):
        raise ValueError(
            f"K is (n, n) for n targets, and a weight is one for each, not {K.shape}, {y.shape}, {w.shape}."
        )
    chosen = penalties_of(penalties)
    if by not in _HOW:
        if isinstance(by, str) or not 2 <= by <= len(y):
            raise ValueError(
                f"by is 'loo', 'gcv' or a number of folds from 2 to the number of rows {len(y)}, not {by!r}."
            )
        scores = _by_folds(K, y, chosen, w, int(by))
        return KernelPath(chosen, _solutions(decomposed(K, w) if found is None else found, y, chosen), scores)
    values, vectors, root = decomposed(K, w) if found is None else found
    turned = vectors.T @ (root[:, None] * y)
    counts = effective_rows(w)
    coefficients, scored = [], []
    for penalty, inverse in zip(chosen, inverses(values, chosen), strict=True):
        coefficients.append(root[:, None] * (vectors @ (inverse[:, None] * turned)))
        rest = np.where(inverse > 0, penalty * inverse, 1.0)  # 1 - value / (value + penalty), without cancellation
        residual = vectors @ (rest[:, None] * turned)  # S (y - f)
        if by == "gcv":
            scored.append(gcv(counts.sum(), np.sum(residual**2), len(y) - np.sum(rest)))
        else:
            scored.append(_loo(residual, vectors**2 @ rest, w, counts))
    return KernelPath(chosen, np.stack(coefficients), np.array(scored))


def _loo(residual: np.ndarray, share: np.ndarray, w: np.ndarray, counts: np.ndarray) -> float:
    """The error without a row is its error over 1 - h; `share` is 1 - w h, and of a weight above 1 only 1 is left out."""
    seen = w > 0
    left = (counts - 1 + share)[seen] / counts[seen]
    if np.any(left <= 0):  # a row that alone decides its direction is learned by heart, and says nothing of others
        return float("inf")
    return float(np.sum((residual[seen] / left[:, None]) ** 2) / counts.sum())


def _by_folds(K: np.ndarray, y: np.ndarray, penalties: np.ndarray, w: np.ndarray, folds: int) -> np.ndarray:
    fold, errors = (np.cumsum(w > 0) - 1) % folds, np.zeros(len(penalties))  # rows of weight 0 take no turn
    for k in range(folds):
        kept, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        solutions = _solutions(decomposed(K[np.ix_(kept, kept)], w[kept]), y[kept], penalties)
        predicted = np.einsum("ij,pjo->pio", K[np.ix_(out, kept)], solutions)
        errors += np.sum(w[out, None] * (predicted - y[out]) ** 2, axis=(1, 2))
    return errors / max(effective_rows(w).sum(), 1)


def _solutions(found: Decomposition, y: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    values, vectors, root = found
    turned = vectors.T @ (root[:, None] * y)
    return np.stack([root[:, None] * (vectors @ (i[:, None] * turned)) for i in inverses(values, penalties)])
