"""Prediction: Gaussian processes, gradient flow and hyperparameters with kernel matrices, ridge regression on features.

NumPy in, NumPy out, in the precision of the input; JAX arrays may be traced and differentiated. Targets are (n,) or
(n, outputs). Where a matrix is factored, one that is not positive definite, as that of repeated rows, is shifted by the
smallest jitter that makes it so; the result, or a warning, says by how much. A flow needs no jitter: it leaves directions
without a kernel where they are.

Nothing is centred here, and penalties and noise are absolute: they are added to the diagonal.
"""

from .regression.features import cross_validate, leave_one_out, solve
from .regression.gaussian_process import (
    FeaturePosterior,
    Posterior,
    feature_posterior,
    log_marginal_likelihood,
    posterior,
    trained_posterior,
)
from .regression.gradient_flow import GradientFlow, gradient_flow
from .regression.hyperparameters import Fit, fit_hyperparameters
from .regression.kernel import kernel_ridge
from .regression.loss_flow import loss_flow
from .regression.path import KernelPath, RidgePath
from .regression.sums import RidgeState, empty, merge, update

__all__ = [
    "FeaturePosterior", "Fit", "GradientFlow", "KernelPath", "Posterior", "RidgePath", "RidgeState", "cross_validate", "empty",
    "feature_posterior", "fit_hyperparameters", "gradient_flow", "kernel_ridge", "leave_one_out", "log_marginal_likelihood",
    "loss_flow", "merge", "posterior", "solve", "trained_posterior", "update",
]  # fmt: skip
