"""Ridge regression on features that come block by block, solved in the smaller of rows and features.

While rows are fewer than features they are kept, and the n x n problem is solved; from then on only sums are kept, one
set for each fold where penalties are chosen by folds. Rows belong to folds by turns, in the order of their arrival, so
blocks of any sizes give the same folds. Targets are centred by their mean.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..regression.kernel import kernel_ridge
from ..regression.sums import (
    RidgeState,
    cross_validate,
    effective_rows,
    empty,
    leave_one_out,
    merge,
    penalties_of,
    solve,
    update,
)
from ..storage.state import Declared, check_state, declare
from ..storage.values import add_kind

# Of the kernel's mean diagonal: from where rounding of float32 begins to where few rows teach nothing.
PENALTIES = tuple(float(p) for p in np.logspace(-7, 3, 31))
Block = tuple[np.ndarray, np.ndarray, np.ndarray | None]


class Solution(NamedTuple):
    """Weights (features, outputs) and the targets' mean, at the penalty of the lowest score."""

    coef: np.ndarray
    intercept: np.ndarray
    penalty: float
    penalties: np.ndarray
    scores: np.ndarray


class Choice(NamedTuple):
    """How the penalty is chosen: a number, "auto", "loo", "gcv" or "folds"; from the grid, or shares of the diagonal.

    "auto" is leave-one-out where the rows are at hand, and generalised cross-validation from sums: with as many features as
    rows the latter is drawn to the smallest penalties, where it is a quotient of two small numbers.
    """

    penalty: Any
    grid: Any

    def checked(self) -> "Choice":
        """The same, or an error."""
        number = isinstance(self.penalty, int | float | np.number) and not isinstance(self.penalty, bool)
        known = isinstance(self.penalty, str) and self.penalty in ("auto", "loo", "gcv", "folds")
        if not known and not (number and 0 <= self.penalty < np.inf):
            raise ValueError(
                f"penalty is a number of 0 or more, 'auto', 'loo', 'gcv' or 'folds', not {self.penalty!r}."
            )
        if self.grid is not None:
            penalties_of(self.grid)
        return self

    def by(self, rows: int, folds: int) -> Any:
        """The score for `kernel_ridge`, where few rows allow it."""
        if self.penalty == "auto":
            return "loo"
        if self.penalty != "folds":
            return self.penalty if isinstance(self.penalty, str) else "gcv"
        return min(folds, rows) if rows > 1 else "gcv"

    def values(self, diagonal: float) -> np.ndarray:
        """The penalties to try."""
        if not isinstance(self.penalty, str):
            return np.array([float(self.penalty)])
        if self.grid is not None:
            return np.atleast_1d(np.asarray(self.grid, np.float64))
        return np.array(PENALTIES) * (diagonal if diagonal > 0 else 1.0)


class Sums(NamedTuple):
    """What is kept of many rows: products, and sums by which to centre the targets.

    Targets are less a fixed shift, near their mean: differences of the sums of large numbers would leave nothing.
    """

    state: RidgeState
    phi: np.ndarray
    y: np.ndarray
    weight: float

    def plus(self, phi: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> "Sums":
        """With rows more, in float64: small penalties bring out the rounding of products in float32."""
        phi = phi.astype(np.float64, copy=False)
        ones = np.ones(len(y)) if w is None else w
        return Sums(
            update(self.state, phi, y, w), self.phi + ones @ phi, self.y + ones @ y, self.weight + float(ones.sum())
        )

    def centred(self, mean: np.ndarray) -> RidgeState:
        """The state of the targets less their mean."""
        gram, moment, squares, rows = self.state
        return RidgeState(
            gram, moment - np.outer(self.phi, mean), squares - 2 * mean * self.y + self.weight * mean**2, rows
        )


class Stream:
    """The rows seen so far, and the solution on them, computed when it is asked for."""

    _saved: ClassVar[Declared] = {
        "features": int, "outputs": int, "choice": Choice, "folds": int, "count": int, "effective": float,
        "shift": "outputs?", "found": Solution,
    }  # fmt: skip

    def __init__(self, features: int, outputs: int, choice: Choice, folds: int):
        self.features, self.outputs, self.choice, self.folds = features, outputs, choice, folds
        self.rows: list[Block] | None = []
        self.sums: list[Sums] = []
        self.count = 0
        self.effective = 0.0  # rows by their weights, which decide as so many repeated rows would
        self.shift: np.ndarray | None = None  # the mean of the first targets
        self.found: Solution | None = None

    def state(self, resumable: bool) -> dict[str, Any]:
        """What a file holds of it: the solution, and with `resumable` the rows or sums by which to go on."""
        rows = None if self.rows is None else [[phi, y, w] for phi, y, w in self.rows]
        kept = {"rows": rows, "sums": self.sums, "shift": self.shift}
        return {
            **(kept if resumable else {"rows": None, "sums": [], "shift": None}),
            "features": self.features, "outputs": self.outputs, "choice": self.choice, "folds": int(self.folds),
            "count": self.count, "effective": self.effective, "found": self.solution(),
        }  # fmt: skip

    @staticmethod
    def of_state(state: dict[str, Any]) -> "Stream":
        """The stream of its state."""
        stream = Stream(state["features"], state["outputs"], state["choice"].checked(), state["folds"])
        rows = state["rows"]
        stream.rows = None if rows is None else [(phi, y, w) for phi, y, w in rows]
        stream.sums, stream.shift, stream.found = state["sums"] or [], state["shift"], state["found"]
        stream.count, stream.effective = state["count"], state["effective"]
        return stream

    def check(self, sizes: dict[str, int]) -> None:
        """Refuse a stream of a file whose parts do not fit each other or these sizes."""
        if (self.features, self.outputs) != (sizes["features"], sizes["outputs"]):
            raise ValueError(f"its solution is of {self.features} features and {self.outputs} outputs")
        check_state(vars(self), self._saved, sizes)
        for sums in self.sums:
            check_state({"sums": sums}, {"sums": Sums}, sizes)
        for phi, y, w in self.rows or ():
            rows = {"phi": phi, "y": y, "w": w}
            check_state(rows, {"phi": "rows features", "y": "rows outputs", "w": "rows?"}, {**sizes, "rows": len(phi)})
        if self.sums and len(self.sums) != (self.folds if self.choice.penalty == "folds" else 1):
            raise ValueError(f"it has the sums of {len(self.sums)} folds")

    def add(self, phi: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> None:
        """Take a block of rows in; those of weight 0 count for nothing."""
        if w is not None and not np.all(w > 0):
            phi, y, w = phi[w > 0], y[w > 0], w[w > 0]
        self.found = None
        self.shift = y.mean(axis=0) if self.shift is None and len(y) else self.shift
        self.effective += len(y) if w is None else float(effective_rows(w).sum())
        if self.rows is not None:
            self.rows.append((phi, y, w))
            if self.effective >= self.features:
                self.gather()
        else:
            self._sum(phi, y, w, self.count)
        self.count += len(y)

    def gather(self) -> None:
        """Go over from rows to sums."""
        parts = self.folds if self.choice.penalty == "folds" else 1
        zeros = np.zeros(self.features), np.zeros(self.outputs)
        self.sums = [Sums(empty(self.features, self.outputs), *zeros, 0.0) for _ in range(parts)]
        rows, self.rows, start = self.rows or [], None, 0
        for phi, y, w in rows:
            self._sum(phi, y, w, start)
            start += len(y)

    def _sum(self, phi: np.ndarray, y: np.ndarray, w: np.ndarray | None, start: int) -> None:
        parts = len(self.sums)
        for k in range(parts):
            own = slice((k - start) % parts, None, parts)
            if len(y[own]):
                self.sums[k] = self.sums[k].plus(phi[own], y[own] - self.shift, None if w is None else w[own])

    def solution(self, again: Callable[[], Iterable[Block]] | None = None) -> Solution:
        """The solution on all rows; `again` gives them once more, for leave-one-out of more rows than features."""
        if self.found is None:
            self.found = self._of_rows(self.rows) if self.rows is not None else self._of_sums(again)
        return self.found

    def _of_rows(self, rows: list[Block]) -> Solution:
        phi = np.concatenate([np.asarray(phi, np.float64) for phi, _, _ in rows])
        y = np.concatenate([y for _, y, _ in rows])
        w = np.concatenate([np.ones(len(y)) if w is None else w for _, y, w in rows])
        mean = w @ y / max(w.sum(), 1e-300)
        K = phi @ phi.T
        grid = self.choice.values(w @ np.diag(K) / max(effective_rows(w).sum(), 1))
        path = kernel_ridge(K, y - mean, grid, w, self.choice.by(len(y), self.folds))
        return Solution(phi.T @ path.coefficients[path.chosen], mean, grid[path.chosen], grid, path.scores)

    def _of_sums(self, again: Callable[[], Iterable[Block]] | None) -> Solution:
        mean = np.sum([part.y for part in self.sums], axis=0) / max(sum(part.weight for part in self.sums), 1e-300)
        states = [part.centred(mean) for part in self.sums]
        rows = max(sum(state.rows for state in states), 1)
        grid = self.choice.values(sum(np.trace(state.gram) for state in states) / rows)
        mean = mean + (0 if self.shift is None else self.shift)
        if self.choice.penalty == "folds":
            path = cross_validate(states, grid)
        elif self.choice.penalty == "loo":
            if again is None:
                raise ValueError(
                    f"penalty='loo' looks at every row a second time, and partial_fit has kept none of {self.count} rows, "
                    f"more than the {self.features} features. Use penalty='gcv', its approximation from sums, or 'folds'."
                )
            path = leave_one_out(merge(*states), grid, ((phi, y - mean, w) for phi, y, w in again() if len(y)))
        else:
            path = solve(merge(*states), grid)
        chosen = int(np.argmin(path.scores))
        return Solution(path.weights[chosen], mean, grid[chosen], grid, path.scores)


declare(Choice, {"penalty": object, "grid": object})  # which `Choice.checked` looks at
declare(
    Solution,
    {
        "coef": "features outputs",
        "intercept": "outputs",
        "penalty": float,
        "penalties": np.ndarray,
        "scores": np.ndarray,
    },
)
declare(RidgeState, {"gram": "features features", "moment": "features outputs", "squares": "outputs", "rows": float})
declare(Sums, {"state": RidgeState, "phi": "features", "y": "outputs", "weight": float})
add_kind(
    "stream",
    Stream,
    lambda stream, encoder: {"stream": {k: encoder.encode(v) for k, v in stream.state(encoder.resumable).items()}},
    lambda data, decoder: Stream.of_state({k: decoder.decode(v) for k, v in data["stream"].items()}),
)
