"""The objective that everything here minimises: sum_i w_i |y_i - ybar - f(x_i)|^2 + penalty |f|^2.

f is linear in features, f(x) = b . (phi(x) - mean) with |f| = |b|, or in a kernel, f(x) = sum_i a_i (k(x, x_i) - mean_i) with
|f|^2 = a^T K a. Either way the solution is that of a symmetric matrix, (A + penalty) c = t. With S = W^(1/2):

| given | A | t | solution |
|---|---|---|---|
| sums of features | phi^T W phi | phi^T W y | b = c |
| a kernel matrix | S K S | S y | a = S c |

Rows of weight 0 drop out. A row of weight w >= 1 counts as w rows, so whole weights give what repeated rows give, scores
included; a row of less weight is one row that is trusted less.

Two conventions are arguments. `centred` says what is centred by its weighted mean: "nothing" (ybar and the mean of the rows
are 0), "targets", or "all", targets and rows. `unit` says what penalties are: "absolute", or a "share" of the mean diagonal of
the kernel after centring.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from .arrays import ArrayLike, Penalties, Targets, Weight

Centred = Literal["nothing", "targets", "all"]
Unit = Literal["absolute", "share"]


class Mean(NamedTuple):
    """What was subtracted: the mean of the rows, features or kernels with the fitted rows, and the mean of the targets."""

    rows: Float[Array | np.ndarray, " columns"]
    targets: Float[np.ndarray, " outputs"]

    def predict(
        self, rows: Float[np.ndarray, "rows columns"], solutions: Float[np.ndarray, "*penalties columns outputs"]
    ) -> Float[np.ndarray, "*penalties rows outputs"]:
        """The targets of other rows, for one solution or several."""
        return (rows - np.asarray(self.rows)) @ solutions + self.targets


def effective_rows(weight: Weight) -> Float[np.ndarray, " n"]:
    """How many rows each row counts for: its weight, or 1 if that is less, or 0 if it is 0."""
    return np.where(weight > 0, np.maximum(weight, 1.0), 0.0)


def check_penalties(penalties: ArrayLike) -> Penalties:
    """One penalty or several as an array, or an error."""
    try:
        checked = np.atleast_1d(np.asarray(penalties, np.float64))
    except (TypeError, ValueError):
        checked = np.empty(0)
    if checked.ndim != 1 or not len(checked) or not (np.all(np.isfinite(checked)) and np.all(checked >= 0)):
        raise ValueError(f"penalties are numbers of 0 or more, not {penalties!r}.")
    return checked


def absolute_penalties(penalties: ArrayLike, unit: Unit, diagonal: float) -> Penalties:
    """Penalties to add to the diagonal, whose mean is `diagonal`; shares of 0 are of 1 instead."""
    checked = check_penalties(penalties)
    return checked if unit == "absolute" else checked * (diagonal if diagonal > 0 else 1.0)


def check_weight(weight: ArrayLike | None, rows: int) -> Float[np.ndarray, " n"]:
    """The weight of each of so many rows in float64; ones for None, and a single number for all."""
    w = np.asarray(1.0 if weight is None else weight, np.float64)
    w = np.broadcast_to(w, w.shape or rows)
    if w.shape != (rows,) or not np.all(w >= 0):
        raise ValueError(f"weight is a number of 0 or more, or one for each of {rows} rows, not {weight!r}.")
    return w


def target_mean(y: Targets, weight: Weight, centred: Centred) -> Float[np.ndarray, " outputs"]:
    """The mean that is subtracted from targets."""
    return np.zeros(y.shape[1]) if centred == "nothing" else weight @ y / max(weight.sum(), 1e-300)
