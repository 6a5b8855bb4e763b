"""Targets of ridge regression: numbers as they are, classes as -1 and 1.

Two classes are one column; more, or several labels at a time, one column each. Least squares on such columns estimates
probabilities: (1 + column) / 2 is that of a class given the input, as far as the model can express it.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from ..storage.state import Declaration


class Classes(BaseEstimator):
    """A mixin for classifiers by least squares, which have `_values`; sets `classes_` and `multilabel_`."""

    _saved: ClassVar[Declaration] = {"classes_": np.ndarray, "multilabel_": bool}
    _values: Callable[[Any], np.ndarray]

    def _sizes(self) -> dict[str, int]:
        sizes = super()._sizes()  # of `Neural`
        count = len(self.classes_)
        outputs = 1 if count == 2 and not self.multilabel_ else count
        if self.classes_.ndim != 1 or count < 2 - self.multilabel_ or sizes.get("outputs", outputs) != outputs:
            raise ValueError(f"its classes are an array of the shape {self.classes_.shape}")
        return {**sizes, "outputs": outputs}

    def _learn_classes(self, y: Any, classes: Any = None) -> None:
        check_classification_targets(y)
        self.multilabel_ = type_of_target(y) == "multilabel-indicator"
        if self.multilabel_:
            self.classes_ = np.arange(y.shape[1])
            return
        present = np.unique(column_or_1d(y))
        self.classes_ = present if classes is None else np.unique(np.asarray(classes))
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs two classes at least, and y has one class: {present[0]}.")

    def _encode(self, y: Any) -> np.ndarray:
        """The targets of labels, (n, columns)."""
        if self.multilabel_:
            y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
            if not np.all((y == 0) | (y == 1)):
                raise ValueError(
                    "Of several labels, y holds 0 and 1, and here other numbers too. Use (y > 0).astype(int)."
                )
            if y.ndim != 2 or y.shape[1] != len(self.classes_):
                raise ValueError(f"y has the shape {y.shape}, and the first rows had {len(self.classes_)} labels each.")
            return 2.0 * y - 1
        y = column_or_1d(y, warn=True)
        place = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[place] != y
        if np.any(unknown):
            known = ", ".join(map(str, self.classes_[:10]))
            raise ValueError(
                f"y has the class {y[np.argmax(unknown)]}, which is none of {known}. Name all in the "
                "first partial_fit(X, y, classes=...)."
            )
        if len(self.classes_) == 2:
            return np.where(place == 1, 1.0, -1.0)[:, None]
        return np.where(place[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)

    def decision_function(self, X: Any) -> np.ndarray:
        """What the regression says of each class, from -1 to 1 where it is well inside the data; (n,) for two classes."""
        scores = self._values(X)
        return scores[:, 0] if len(self.classes_) == 2 and not self.multilabel_ else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score; with several labels, those above 0."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The least-squares estimates of the classes' probabilities, brought to the nearest that are probabilities.

        They tend to the true ones with the number of rows, as far as the model can express them, but are not calibrated:
        far from the data they tend to the frequencies of the classes, and many are exactly 0 or 1. For probabilities to
        rely on, put the classifier into scikit-learn's `CalibratedClassifierCV`.
        """
        estimates = (1 + self.decision_function(X)) / 2
        if self.multilabel_:
            least = np.finfo(estimates.dtype).eps  # scikit-learn asks for more than 0
            return np.clip(estimates, least, 1 - least)
        if estimates.ndim == 1:
            estimates = np.clip(estimates, 0, 1)
            return np.stack([1 - estimates, estimates], axis=1)
        return nearest_probabilities(estimates)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def nearest_probabilities(estimates: np.ndarray) -> np.ndarray:
    """The nearest points of the simplex to rows: cut off at 0 after a shift that makes the sum 1 (Held et al., 1974)."""
    falling = -np.sort(-estimates, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, estimates.shape[1] + 1)
    last = np.count_nonzero(falling > excess, axis=1) - 1
    shift = np.take_along_axis(excess, last[:, None], axis=1)
    nearest = np.maximum(estimates - shift, 0)
    return nearest / nearest.sum(axis=1, keepdims=True)


def numeric_targets(y: Any) -> np.ndarray:
    """Regression targets as columns of float64."""
    y = np.asarray(y, np.float64)
    return y[:, None] if y.ndim == 1 else y
