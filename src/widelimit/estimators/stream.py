"""Ridge regression on features that come block by block, solved in the smaller of rows and features.

While rows are fewer than features they are kept, and the n x n problem is solved; from then on only sums are kept, one
set for each fold where penalties are chosen by folds. Rows belong to folds by turns, in the order of their arrival, so
blocks of any sizes give the same folds. Targets are centred by their mean, features are not.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..regression.features import solve_sums
from ..regression.kernel import By, kernel_problem
from ..regression.objective import Unit, check_penalties, effective_rows
from ..regression.path import Path
from ..regression.sums import RidgeState, Sums, empty_sums
from ..storage.state import Declaration, check_state, declare
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

    @classmethod
    def of(cls, coef: np.ndarray, intercept: np.ndarray, path: Path) -> "Solution":
        """What is kept of a path: one solution, and all scores."""
        return cls(coef, intercept, path.penalties[path.lowest], path.penalties, path.scores)


class Choice(NamedTuple):
    """How the penalty is chosen: a number, "auto", "loo", "gcv" or "folds"; from the grid, or shares of the diagonal.

    "auto" is leave-one-out where the rows are at hand, and generalised cross-validation from sums: with as many features as
    rows the latter is drawn to the smallest penalties, where it is a quotient of two small numbers.
    """

    penalty: Any
    grid: Any

    def check(self) -> "Choice":
        """The same, or an error."""
        number = isinstance(self.penalty, int | float | np.number) and not isinstance(self.penalty, bool)
        known = isinstance(self.penalty, str) and self.penalty in ("auto", "loo", "gcv", "folds")
        if not known and not (number and 0 <= self.penalty < np.inf):
            raise ValueError(
                f"penalty is a number of 0 or more, 'auto', 'loo', 'gcv' or 'folds', not {self.penalty!r}."
            )
        if self.grid is not None:
            check_penalties(self.grid)
        return self

    def from_rows(self, rows: int, folds: int) -> By:
        """The score of penalties where the rows are at hand."""
        if self.penalty == "auto":
            return "loo"
        if self.penalty != "folds":
            return "loo" if self.penalty == "loo" else "gcv"
        return min(folds, rows) if rows > 1 else "gcv"

    def from_sums(self) -> str:
        """The score of penalties where only sums are."""
        return self.penalty if self.penalty in ("loo", "folds") else "gcv"

    def penalties(self) -> tuple[Any, Unit]:
        """The penalties to try, and their unit."""
        if not isinstance(self.penalty, str):
            return float(self.penalty), "absolute"
        return (PENALTIES, "share") if self.grid is None else (self.grid, "absolute")


class Stream:
    """The rows seen so far, and the solution on them, computed when it is first read."""

    _saved: ClassVar[Declaration] = {
        "features": int, "outputs": int, "choice": Choice, "folds": int, "count": int, "effective": float,
        "shift": "outputs?", "found": Solution,
    }  # fmt: skip

    def __init__(self, features: int, outputs: int, choice: Choice, folds: int):
        self.features, self.outputs, self.choice, self.folds = features, outputs, choice, folds
        self.rows: list[Block] | None = []
        self.sums: list[Sums] = []
        self.count = 0
        self.effective = 0.0  # rows by their weights, which decide as so many repeated rows would
        self.shift: np.ndarray | None = None  # the mean of the first targets, which sums are less: they would cancel
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
        stream = Stream(state["features"], state["outputs"], state["choice"].check(), state["folds"])
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
        self.sums = [empty_sums(self.features, self.outputs) for _ in range(parts)]
        rows, self.rows, start = self.rows or [], None, 0
        for phi, y, w in rows:
            self._sum(phi, y, w, start)
            start += len(y)

    def _sum(self, phi: np.ndarray, y: np.ndarray, w: np.ndarray | None, start: int) -> None:
        parts = len(self.sums)
        for k in range(parts):
            own = slice((k - start) % parts, None, parts)
            if len(y[own]):
                self.sums[k] = self.sums[k].add(phi[own], y[own] - self.shift, None if w is None else w[own])

    def solution(self, again: Callable[[], Iterable[Block]] | None = None) -> Solution:
        """The solution on all rows; `again` gives them once more, for leave-one-out of more rows than features."""
        if self.found is None:
            self.found = self._from_sums(again) if self.rows is None else self._from_rows(self.rows)
        return self.found

    def _from_rows(self, rows: list[Block]) -> Solution:
        phi = np.concatenate([np.asarray(phi, np.float64) for phi, _, _ in rows])
        y = np.concatenate([y for _, y, _ in rows])
        w = np.concatenate([np.ones(len(y)) if w is None else w for _, y, w in rows])
        problem = kernel_problem(phi @ phi.T, y, w, centred="targets")
        path = problem.path(*self.choice.penalties(), self.choice.from_rows(len(y), self.folds))
        return Solution.of(phi.T @ path.best, problem.mean.targets, path)

    def _from_sums(self, again: Callable[[], Iterable[Block]] | None) -> Solution:
        blocks: Iterable[Any] = ()
        shift = np.zeros(self.outputs) if self.shift is None else self.shift
        if self.choice.penalty == "loo":
            if again is None:
                raise ValueError(
                    f"penalty='loo' looks at every row a second time, and partial_fit has kept none of {self.count} rows, "
                    f"more than the {self.features} features. Use penalty='gcv', its approximation from sums, or 'folds'."
                )
            blocks = ((phi, y - shift, w) for phi, y, w in again() if len(y))
        penalties, unit = self.choice.penalties()
        path, mean = solve_sums(self.sums, penalties, self.choice.from_sums(), blocks, centred="targets", unit=unit)
        return Solution.of(np.array(path.best), mean.targets + shift, path)


declare(Choice, {"penalty": object, "grid": object})  # which `Choice.check` looks at
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
