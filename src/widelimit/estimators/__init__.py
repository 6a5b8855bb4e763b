"""scikit-learn estimators: infinitely wide networks for those who know scikit-learn.

`NeuralKernelClassifier` and `NeuralKernelRegressor` solve with exact kernels, up to some ten thousand rows;
`SketchedRidgeClassifier` and `SketchedRidgeRegressor` with random features, up to millions; `NeuralFeatures` is the
features as a transformer, and `NeuralKernel` the kernel for `GaussianProcessRegressor`, `SVC` and `KernelRidge`.
`ImageNormalizer` and `ZCA` prepare images; `save` and `load` keep fitted models as arrays and JSON.
"""

from .exact import NeuralKernelClassifier, NeuralKernelRegressor
from .features import NeuralFeatures
from .images import ZCA, ImageNormalizer
from .kernel import NeuralKernel
from .models import load, save
from .sketched_ridge import SketchedRidgeClassifier, SketchedRidgeRegressor

__all__ = [
    "ZCA", "ImageNormalizer", "NeuralFeatures", "NeuralKernel", "NeuralKernelClassifier", "NeuralKernelRegressor",
    "SketchedRidgeClassifier", "SketchedRidgeRegressor", "load", "save",
]  # fmt: skip
