"""Ridge regression, or Gaussian processes, with exact kernels."""

from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..kernels.exact import kernel
from ..numerics.checks import check_int
from ..regression.kernel import KernelProblem, kernel_problem
from ..regression.objective import effective_rows
from ..storage.state import Declaration, storable
from .inputs import NETWORK, ROWS, Neural, check_weights, with_parameters
from .stream import Choice
from .targets import Classes, numeric_targets

_PARAMETERS = f"""
    The kernel matrix of all training rows is computed and solved: O(n^2) memory and O(n^3) time, for up to some ten thousand
    rows; beyond, use the Sketched estimators. Columns are not standardised: put a StandardScaler before it in a Pipeline.

{NETWORK}    penalty
        A number, added to the diagonal; or how one of `penalties` is chosen: "auto" or "loo", leave-one-out, exactly; "gcv",
        generalised cross-validation; "folds", `folds` of them. The targets' mean is that of all rows.
    penalties
        The grid to choose from; by default 31 from 1e-7 to 1000 times the kernel's mean diagonal.
    folds
        How many there are for penalty="folds".
{ROWS}    progress
        Show a bar.

    Attributes
    ----------
    X_fit_
        The training rows.
    dual_coef_
        Coefficients of K(x, X_fit_).
    intercept_
        The targets' mean.
    penalty_, penalties_, scores_
        The penalty, those tried, and their scores, lower is better.
    net_
        The network.
    classes_
        Of a classifier.
    scale_
        Of a regressor, the number by which the kernel is multiplied to make the targets most likely, for each output.
    """


class NeuralKernelRidge(Neural):
    """What classifier and regressor share."""

    _saved: ClassVar[Declaration] = {
        "kernel_": str, "X_fit_": "rows columns", "dual_coef_": "rows outputs", "intercept_": "outputs",
        "penalty_": float, "penalties_": np.ndarray, "scores_": np.ndarray,
    }  # fmt: skip

    def __init__(
        self, arch="fc", *, activation="gelu", depth=3, W_std=1.0, b_std=0.5, net=None, kernel="ntk", penalty="auto",
        penalties=None, folds=5, image_shape=None, scale_rows=False, progress=False,
    ):  # fmt: skip
        super().__init__(arch, activation, depth, W_std, b_std, net, kernel, image_shape, scale_rows, progress)
        self.penalty = penalty
        self.penalties = penalties
        self.folds = folds

    def _solve(self, X: np.ndarray, targets: np.ndarray, sample_weight: Any) -> KernelProblem:
        """Sets the solution, and gives the problem that it solves."""
        choice, folds = Choice(self.penalty, self.penalties).check(), check_int("folds", self.folds, least=2)
        w = None if sample_weight is None else check_weights(sample_weight, X)
        self.kernel_, self.scale_rows_ = self.kernel, self.scale_rows
        problem = kernel_problem(self._kernel(X), targets, w, centred="targets")
        path = problem.path(*choice.penalties(), choice.from_rows(len(X), folds))
        self.X_fit_, self.dual_coef_, self.intercept_ = X, np.array(path.best), problem.mean.targets
        self.penalties_, self.scores_, self.penalty_ = path.penalties, path.scores, float(path.penalties[path.lowest])
        return problem

    def _sizes(self) -> dict[str, int]:
        sizes = super()._sizes()
        inputs = jax.ShapeDtypeStruct((2, *self._input_shape()), np.float32)
        jax.eval_shape(partial(kernel, self.net_), inputs)  # refuses a network that makes no sense, without computing
        return sizes

    def _kernel(self, x1: np.ndarray, x2: np.ndarray | None = None) -> np.ndarray:
        large = self.progress and max(len(x1), 0 if x2 is None else len(x2)) > 512
        x2 = None if x2 is None else self._network_inputs(x2)
        K = self.net_.kernel(self._network_inputs(x1), x2, get=self.kernel_, **({"progress": True} if large else {}))
        if not np.all(np.isfinite(K)):
            raise ValueError(
                f"The kernel of these rows is not finite: X goes up to {np.abs(x1).max():.3g}, W_std is {self.W_std}. "
                "Scale the rows, by a StandardScaler or scale_rows=True, or give a smaller W_std."
            )
        return K

    def _values(self, X: Any) -> np.ndarray:
        """(n, outputs)."""
        check_is_fitted(self)
        return self._kernel(self._check_rows(X), self.X_fit_) @ self.dual_coef_ + self.intercept_


@storable
@with_parameters(_PARAMETERS)
class NeuralKernelClassifier(Classes, ClassifierMixin, NeuralKernelRidge):
    """Classification by least squares with the exact kernel of an infinitely wide network."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NeuralKernelClassifier":
        """Solve on all rows."""
        X, y = self._check_training(X, y, multi_output=True)
        self._learn_classes(y)
        self._solve(X, self._encode(y), sample_weight)
        return self


@storable
@with_parameters(_PARAMETERS)
class NeuralKernelRegressor(MultiOutputMixin, RegressorMixin, NeuralKernelRidge):
    """Regression, or a Gaussian process, with the exact kernel of an infinitely wide network.

    As a Gaussian process its prior covariance is `scale_` times the kernel, for each output the number that makes the targets
    most likely, and its noise has the variance `scale_ * penalty_`.
    """

    _saved: ClassVar[Declaration] = {"one_output_": bool, "root_": "rows", "scale_": "outputs"}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NeuralKernelRegressor":
        """Solve on all rows."""
        X, y = self._check_training(X, y, multi_output=True, y_numeric=True)
        self.one_output_ = y.ndim == 1
        problem = self._solve(X, numeric_targets(y), sample_weight)
        self.root_, self._half = np.sqrt(problem.weight), problem.half_inverse(self.penalty_)
        # the maximum of the likelihood: y^T (K + penalty)^-1 y / n
        self.scale_ = np.sum(problem.y * self.dual_coef_, axis=0) / effective_rows(problem.weight).sum()
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean, (n,) or (n, outputs); with `return_std`, also the standard deviation of the function.

        It is that of the Gaussian process whose kernel is `scale_` times the network's, and whose noise has the variance
        `scale_ * penalty_`, which is to be added for the deviation of a new target.
        """
        if not return_std:
            values = self._values(X)
            return values[:, 0] if self.one_output_ else values
        check_is_fitted(self)
        X = self._check_rows(X)
        cross = self._kernel(X, self.X_fit_).astype(np.float64)
        mean = cross @ self.dual_coef_ + self.intercept_
        own = self.net_.kernel(self._network_inputs(X), get=self.kernel_, diagonal=True)
        std = np.sqrt(np.maximum(own - np.sum((cross @ self._inverse()) ** 2, axis=1), 0)[:, None] * self.scale_)
        return (mean[:, 0], std[:, 0]) if self.one_output_ else (mean, std)

    def _inverse(self) -> np.ndarray:
        """H with H H^T = (K + penalty / w)^-1; as large as the kernel, so files leave it out."""
        if not hasattr(self, "_half"):
            problem = kernel_problem(self._kernel(self.X_fit_), np.zeros(len(self.X_fit_)), self.root_**2)
            self._half = problem.half_inverse(self.penalty_)
        return self._half
