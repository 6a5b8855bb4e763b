"""What the field does to images before a kernel: each one normalised, then all whitened."""

from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..execution.grid import ranges
from ..storage.state import Declaration, storable

_BLOCK = 4096  # rows at a time, in float64


def normalise_rows(x: Any, unit: str = "length") -> Any:
    """Every row less its mean and divided by its length, or for `unit="variance"` by its standard deviation, in float64.

    Constant rows become zero. `x` is a NumPy array, or a JAX array with x64 enabled, and the result is of the same kind.
    """
    xp = x.__array_namespace__()
    x = x.astype(xp.float64)
    largest = xp.max(xp.abs(x), axis=1, keepdims=True, initial=0)
    x = x / xp.where(largest > 0, largest, 1)  # squares of what is left neither overflow nor vanish
    x = x - xp.mean(x, axis=1, keepdims=True)
    size = xp.linalg.norm(x, axis=1, keepdims=True)
    constant = size <= 1e-12 * x.shape[1] ** 0.5  # what is left of a constant row is rounding
    size = size / x.shape[1] ** 0.5 if unit == "variance" else size
    return xp.where(constant, 0, x / xp.where(constant, 1, size))


def whitening_matrix(values: Any, vectors: Any, regularization: float) -> Any:
    """V (L + regularization * mean(L))^(-1/2) V^T of eigenvalues L and eigenvectors V, without directions that are rounding."""
    xp = values.__array_namespace__()
    values = xp.maximum(values, 0)
    scale = values + regularization * xp.mean(values)
    least = len(values) * np.finfo(np.float64).eps * xp.max(values, initial=0)
    return (vectors * xp.where(scale > least, 1 / xp.sqrt(xp.where(scale > least, scale, 1)), 0)) @ vectors.T


class _OfRows(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A transformer of rows, or of images that it gives back as images."""

    def _flat(self, X: Any, reset: bool) -> tuple[np.ndarray, tuple[int, ...]]:
        shape = np.shape(X) if getattr(X, "ndim", 2) == 4 else None
        flat = X.reshape(len(X), -1) if shape else X
        flat = validate_data(self, flat, reset=reset, dtype=[np.float64, np.float32])
        return flat, shape or flat.shape

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@storable
class ImageNormalizer(_OfRows):
    """Every image, or row, less its mean and divided by its length; with `unit="variance"` by its standard deviation.

    Constant images become zero. Images are (n, height, width, channels), or flat.
    """

    def __init__(self, unit="length"):
        self.unit = unit

    def fit(self, X: Any, y: Any = None) -> "ImageNormalizer":
        """Nothing is learned but the number of columns."""
        if self.unit not in ("length", "variance"):
            raise ValueError(f"unit is 'length' or 'variance', not {self.unit!r}.")
        self._flat(X, reset=True)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The normalised images."""
        check_is_fitted(self)
        x, shape = self._flat(X, reset=False)
        return normalise_rows(x, self.unit).astype(x.dtype).reshape(shape)


@storable
class ZCA(_OfRows):
    """Whitening by x -> V (L + regularisation * mean(L))^(-1/2) V^T (x - mean), with L, V the covariance's eigenvalues.

    That is the paper's regularised ZCA (Shankar et al., 2020), fitted in float64; its images look like images. The default
    regularisation 0.1 is the paper's for CIFAR-10. `center=False` takes second moments, for images normalised one by one.
    """

    _saved: ClassVar[Declaration] = {"mean_": "columns", "whitening_": "columns columns"}

    def __init__(self, regularization=0.1, center=True):
        self.regularization = regularization
        self.center = center

    def fit(self, X: Any, y: Any = None) -> "ZCA":
        """Learn the mean and the covariance."""
        if not 0 <= self.regularization < np.inf:
            raise ValueError(f"regularization is a number of 0 or more, not {self.regularization!r}.")
        x, _ = self._flat(X, reset=True)
        self.mean_ = x.mean(axis=0, dtype=np.float64) if self.center else np.zeros(x.shape[1])
        covariance = np.zeros((x.shape[1], x.shape[1]))
        for rows in ranges(len(x), _BLOCK):
            part = x[rows] - self.mean_
            covariance += part.T @ part
        values, vectors = linalg.eigh(covariance / len(x), driver="evd")
        self.whitening_ = whitening_matrix(values, vectors, self.regularization)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The whitened images."""
        check_is_fitted(self)
        x, shape = self._flat(X, reset=False)
        parts = [(x[rows] - self.mean_) @ self.whitening_ for rows in ranges(len(x), _BLOCK)]
        return np.concatenate(parts).astype(x.dtype).reshape(shape)
