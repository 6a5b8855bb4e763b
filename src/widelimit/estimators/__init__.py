"""scikit-learn estimators: infinitely wide networks for those who know scikit-learn.

`NeuralKernelClassifier` and `NeuralKernelRegressor` solve with exact kernels, up to some ten thousand rows;
`SketchedRidgeClassifier` and `SketchedRidgeRegressor` with random features, up to millions; `NeuralFeatures` is the
features as a transformer, and `NeuralKernel` the kernel for `GaussianProcessRegressor`, `SVC` and `KernelRidge`.
`ImageNormalizer` and `ZCA` prepare images.
"""

from .exact import NeuralKernelClassifier, NeuralKernelRegressor
from .features import NeuralFeatures
from .images import ZCA, ImageNormalizer
from .kernel import NeuralKernel
from .sketched_ridge import SketchedRidgeClassifier, SketchedRidgeRegressor

__all__ = [
    "ZCA", "ImageNormalizer", "NeuralFeatures", "NeuralKernel", "NeuralKernelClassifier", "NeuralKernelRegressor",
    "SketchedRidgeClassifier", "SketchedRidgeRegressor",
]  # fmt: skip
