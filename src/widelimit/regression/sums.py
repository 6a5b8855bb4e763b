"""Sums over rows of features and targets, in float64: all that ridge regression needs, while the rows are not kept.

Sums of different blocks, workers or folds are added by `merge`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .arrays import ArrayLike, Targets, Weight
from .objective import Centred, Mean, check_weight, effective_rows


class RidgeState(NamedTuple):
    """What is known of the rows so far: phi^T phi, phi^T y, the squares of the targets, and how many rows there were.

    A row of weight w counts as w rows, or as 1 if w is less.
    """

    gram: Float[np.ndarray, "features features"]
    moment: Float[np.ndarray, "features outputs"]
    squares: Float[np.ndarray, " outputs"]
    rows: float


class Sums(NamedTuple):
    """A `RidgeState`, and the weighted sums of features, targets and ones, by which it can be centred."""

    state: RidgeState
    phi: Float[np.ndarray, " features"]
    y: Float[np.ndarray, " outputs"]
    weight: float

    def add(self, phi: Float[np.ndarray, "n features"], y: Targets, weight: Weight | None = None) -> "Sums":
        """Return the sums with these rows added.

        Accumulated in float64, because a small penalty amplifies the rounding of products in float32.
        """
        phi = phi.astype(np.float64, copy=False)
        w = np.ones(len(y)) if weight is None else weight
        return Sums(
            update(self.state, phi, y, weight), self.phi + w @ phi, self.y + w @ y, self.weight + float(w.sum())
        )

    def centre(self, mean: Mean) -> RidgeState:
        """The sums of phi - mean.rows and y - mean.targets."""
        gram, moment, squares, rows = self.state
        features, targets = np.asarray(mean.rows), mean.targets
        moment = moment - np.outer(self.phi, targets)
        if np.any(features):
            gram = gram - np.outer(self.phi, features) - np.outer(features, self.phi - self.weight * features)
            moment = moment - np.outer(features, self.y - self.weight * targets)
        return RidgeState(gram, moment, squares - 2 * targets * self.y + self.weight * targets**2, rows)


def empty(features: int, outputs: int) -> RidgeState:
    """The state of no rows."""
    return RidgeState(np.zeros((features, features)), np.zeros((features, outputs)), np.zeros(outputs), 0.0)


def empty_sums(features: int, outputs: int) -> Sums:
    """Sums of no rows."""
    return Sums(empty(features, outputs), np.zeros(features), np.zeros(outputs), 0.0)


def update(state: RidgeState | None, phi: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> RidgeState:
    """The state with a block of rows more; None starts one.

    `phi` is (rows, features), `y` (rows,) or (rows, outputs); `weight` counts rows more or less than once.
    """
    phi, y = check_block(phi, y)
    state = empty(phi.shape[1], y.shape[1]) if state is None else state
    check_fit(state, phi, y)
    w = check_weight(weight, len(phi))
    root = np.sqrt(w)[:, None]
    scaled = phi if weight is None else phi * root.astype(phi.dtype)
    # the product of a block in its own precision, and by symmetry at half its cost; the sum over blocks in float64
    return RidgeState(
        state.gram + (scaled.T @ scaled).astype(np.float64, copy=False),
        state.moment + scaled.T.astype(np.float64) @ (root * y.astype(np.float64)),
        state.squares + w @ y.astype(np.float64) ** 2,
        state.rows + float(effective_rows(w).sum()),
    )


def check_block(phi: ArrayLike, y: ArrayLike) -> tuple[Float[np.ndarray, "n features"], Targets]:
    """A block of rows as arrays, targets in columns, or an error."""
    if isinstance(phi, tuple):
        raise TypeError("A block has the features of one kernel. Of a map of several, give phi(x).ntk or phi(x).nngp.")
    phi, y = np.asarray(phi), np.asarray(y)
    if not (_is_number(phi) and _is_number(y)):
        raise TypeError(f"Features and targets are numbers, not of the types {phi.dtype} and {y.dtype}.")
    y = y[:, None] if y.ndim == 1 else y
    if phi.ndim != 2 or y.ndim != 2 or len(phi) != len(y):
        raise ValueError(
            f"A block has features (n, m) and targets (n,) or (n, outputs), not {phi.shape} and {y.shape}."
        )
    for name, part in (("features", phi), ("targets", y)):
        if not np.all(np.isfinite(part)):
            row = int(np.argwhere(~np.isfinite(part))[0][0])
            raise ValueError(f"The {name} of row {row} of a block are NaN or infinite. Look at where they come from.")
    return phi, y


def _is_number(x: np.ndarray) -> bool:
    return np.issubdtype(x.dtype, np.number) or x.dtype == bool or str(x.dtype) == "bfloat16"


def check_fit(state: RidgeState, phi: np.ndarray, y: np.ndarray) -> None:
    """An error where a block has other numbers of features or outputs than the state."""
    if state.gram.shape[0] != phi.shape[1] or state.moment.shape[1] != y.shape[1]:
        raise ValueError(
            f"The state is of {state.gram.shape[0]} features and {state.moment.shape[1]} outputs, and the block has "
            f"{phi.shape[1]} and {y.shape[1]}."
        )


def merge(*states: RidgeState) -> RidgeState:
    """The state of all rows."""
    if not states or not all(isinstance(state, RidgeState) for state in states):
        raise TypeError(f"merge takes states, one after the other, not {[type(state).__name__ for state in states]}.")
    if len({state.moment.shape for state in states}) > 1:
        shapes = [state.moment.shape for state in states]
        raise ValueError(f"States to merge have equal numbers of features and outputs, not {shapes}.")
    return RidgeState(*(sum(parts[1:], parts[0]) for parts in zip(*states, strict=True)))


def common_mean(parts: Sequence[Sums], centred: Centred) -> Mean:
    """The weighted means of the features and targets of all parts, where they are to be centred; 0 where not."""
    total = max(sum(part.weight for part in parts), 1e-300)
    phi, y = np.sum([part.phi for part in parts], axis=0), np.sum([part.y for part in parts], axis=0)
    return Mean(
        phi / total if centred == "all" else np.zeros_like(phi), np.zeros_like(y) if centred == "nothing" else y / total
    )


def subtract(total: RidgeState, part: RidgeState) -> RidgeState:
    """The state of the rows of `total` that are not in `part`."""
    return RidgeState(
        total.gram - part.gram, total.moment - part.moment, total.squares - part.squares, total.rows - part.rows
    )
