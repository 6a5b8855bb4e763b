"""Ridge regression on random features, in one pass over the rows."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..numerics.checks import check_int
from ..regression.objective import effective_rows
from ..storage.state import Declaration, storable
from .features import Sketched
from .inputs import NETWORK, ROWS, check_weights, with_parameters
from .stream import Block, Choice, Solution, Stream
from .targets import Classes, numeric_targets

_PARAMETERS = f"""
    A network's NTK (or NNGP) is approximated by `n_components` random features, and ridge regression on them is solved in
    the smaller of rows and features. Columns are not standardised: put a StandardScaler before it in a Pipeline.

{NETWORK}    n_components
        The number of features.
    penalty
        A number, added to the diagonal; or how one of `penalties` is chosen: "auto", leave-one-out while rows are fewer than
        features, and from then on "gcv", generalised cross-validation, from sums alone; "loo", leave-one-out, exactly, which
        looks at the rows twice; "folds", `folds` of them. The targets' mean is that of all rows throughout.
    penalties
        The grid to choose from; by default 31 from 1e-7 to 1000 times the kernel's mean diagonal.
    folds
        How many there are for penalty="folds".
{ROWS}    random_state
        Seed of the draw.
    progress
        Show a bar.

    Attributes
    ----------
    map_
        The drawn feature map.
    coef_, intercept_
        The solution. After `partial_fit`, which only adds sums, the system is solved by `predict`, `score` or the first read of
        one of these attributes, once for all.
    penalty_, penalties_, scores_
        Its penalty, those tried, and their scores, lower is better.
    """


class SketchedRidge(Sketched):
    """What classifier and regressor share: streaming, and the solution."""

    _saved: ClassVar[Declaration] = {"stream_": Stream}

    def __init__(
        self, arch="fc", *, activation="gelu", depth=3, W_std=1.0, b_std=0.5, net=None, kernel="ntk", n_components=4096,
        penalty="auto", penalties=None, folds=5, image_shape=None, scale_rows=False, random_state=None, progress=False,
    ):  # fmt: skip
        super().__init__(arch, activation, depth, W_std, b_std, net, kernel, image_shape, scale_rows, progress)
        self.n_components = n_components
        self.penalty = penalty
        self.penalties = penalties
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Draw the features and solve on all rows."""
        X, targets = self._check_first(X, y)
        w = None if sample_weight is None else check_weights(sample_weight, X)
        self._begin(targets.shape[1])
        if (len(X) if w is None else effective_rows(w).sum()) >= self.n_components:
            self.stream_.gather()  # from the start: no rows are kept
        for block in self._rows(X, targets, w):
            self.stream_.add(*block)
        self.stream_.solution(lambda: self._rows(X, targets, w))
        return self

    def _partial_fit(self, X: Any, targets: np.ndarray, sample_weight: Any) -> None:
        w = None if sample_weight is None else check_weights(sample_weight, X)
        if self.stream_.rows is None and not self.stream_.sums:
            raise ValueError(
                "The rows of the fit, or their sums, were not saved with this model, so it cannot learn more. Save it with "
                "save(model, path, resumable=True)."
            )
        if targets.shape[1] != self.stream_.outputs:
            raise ValueError(f"y has {targets.shape[1]} outputs, and the first rows had {self.stream_.outputs}.")
        for block in self._rows(X, targets, w):
            self.stream_.add(*block)

    def _sizes(self) -> dict[str, int]:
        sizes = {**super()._sizes(), "outputs": self.stream_.outputs}
        self.stream_.check(sizes)
        return sizes

    def _begin(self, outputs: int) -> None:
        choice, folds = Choice(self.penalty, self.penalties).check(), check_int("folds", self.folds, least=2)
        self.map_, self.scale_rows_ = self._draw_map(), self.scale_rows
        self.stream_ = Stream(self.n_components, outputs, choice, folds)

    def _rows(self, X: np.ndarray, targets: np.ndarray, w: np.ndarray | None) -> Iterator[Block]:
        start = 0
        for phi in self._feature_blocks(X):
            own = slice(start, start + len(phi))
            yield phi, targets[own], None if w is None else w[own]
            start += len(phi)

    def _solution(self) -> Solution:
        """The solution on all rows so far: solved once, and again only after further rows."""
        check_is_fitted(self)
        return self.stream_.solution()

    def _values(self, X: Any) -> np.ndarray:
        """(n, outputs)."""
        solution = self._solution()
        X = self._check_rows(X)
        coef = solution.coef.astype(X.dtype)
        return np.concatenate([phi @ coef for phi in self._feature_blocks(X)]) + solution.intercept

    @property
    def coef_(self) -> np.ndarray:
        """The weights of the features, (n_components, outputs). The first read after `partial_fit` solves the system."""
        return self._solution().coef

    @property
    def intercept_(self) -> np.ndarray:
        """The mean of the targets. Solves the system first where `coef_` would."""
        return self._solution().intercept

    @property
    def penalty_(self) -> float:
        """The penalty of the solution. Solves the system first where `coef_` would."""
        return float(self._solution().penalty)

    @property
    def penalties_(self) -> np.ndarray:
        """The penalties that were tried. Solves the system first where `coef_` would."""
        return self._solution().penalties

    @property
    def scores_(self) -> np.ndarray:
        """The score of each: an estimate of the mean squared error, up to a factor; lower is better.

        Solves the system first where `coef_` would.
        """
        return self._solution().scores


@storable
@with_parameters(_PARAMETERS)
class SketchedRidgeRegressor(MultiOutputMixin, RegressorMixin, SketchedRidge):
    """Regression with the random features of an infinitely wide network."""

    _saved: ClassVar[Declaration] = {"one_output_": bool}

    def _check_first(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._check_training(X, y, multi_output=True, y_numeric=True)
        self.one_output_ = y.ndim == 1
        return X, numeric_targets(y)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SketchedRidgeRegressor":
        """Add the sums of further rows. The next `predict`, `score` or read of `coef_` solves the system."""
        if not hasattr(self, "stream_"):
            X, targets = self._check_first(X, y)
            self._begin(targets.shape[1])
        else:
            X, targets = self._check_more(X, y)
        self._partial_fit(X, targets, sample_weight)
        return self

    def _check_more(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._check_rows_and_targets(X, y, multi_output=True, y_numeric=True)
        return X, numeric_targets(y)

    def predict(self, X: Any) -> np.ndarray:
        """(n,), or (n, outputs) where the targets had several."""
        values = self._values(X)
        return values[:, 0] if self.one_output_ else values


@storable
@with_parameters(_PARAMETERS)
class SketchedRidgeClassifier(Classes, ClassifierMixin, SketchedRidge):
    """Classification by least squares with the random features of an infinitely wide network."""

    def _check_first(self, X: Any, y: Any, classes: Any = None) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._check_training(X, y, multi_output=True)
        self._learn_classes(y, classes)
        return X, self._encode(y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "SketchedRidgeClassifier":
        """Add the sums of further rows. `classes` names all that will come, and is needed in the first call.

        The next `predict`, `score` or read of `coef_` solves the system.
        """
        if not hasattr(self, "stream_"):
            if classes is None:
                raise ValueError("The first partial_fit needs classes=, all labels that will come.")
            X, targets = self._check_first(X, y, classes)
            self._begin(targets.shape[1])
        else:
            X, y = self._check_rows_and_targets(X, y, multi_output=True)
            targets = self._encode(y)
        self._partial_fit(X, targets, sample_weight)
        return self
