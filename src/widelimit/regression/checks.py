"""Checks of what the functions of kernel matrices are given: K and targets of training rows, kernels of test rows, noise."""

import numpy as np

from ..numerics.precision import common_arrays
from .arrays import AnyArray, ArrayLike


def check_kernels(
    noise: ArrayLike, K: ArrayLike, y: ArrayLike, K_cross: ArrayLike | None = None, K_test: ArrayLike | None = None
) -> tuple[AnyArray, AnyArray, AnyArray | None, AnyArray | None, AnyArray]:
    """K, y, K_cross, K_test and the noise as arrays of one precision, or an error where their shapes do not go together."""
    arguments = {"K": K, "y": y, "K_cross": K_cross, "K_test": K_test}
    present = {name: value for name, value in arguments.items() if value is not None or name in ("K", "y")}
    if np.shape(noise) != ():
        raise ValueError(f"noise is one variance for all targets, not an array of the shape {np.shape(noise)}.")
    *values, variance = common_arrays(*present.values(), noise)
    arrays: dict[str, AnyArray] = dict(zip(present, values, strict=True))
    for name, array in [*arrays.items(), ("noise", variance)]:
        if isinstance(array, np.ndarray) and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} is not finite: it holds NaN or infinity. Look at the inputs that it comes from.")
    if isinstance(variance, np.ndarray) and variance < 0:
        raise ValueError(f"noise is a variance, 0 or more, not {variance}.")
    _check_shapes({name: array.shape for name, array in arrays.items()})
    return arrays["K"], arrays["y"], arrays.get("K_cross"), arrays.get("K_test"), variance


def _check_shapes(shapes: dict[str, tuple[int, ...]]) -> None:
    n = shapes["K"][0] if shapes["K"] else 0
    if shapes["K"] != (n, n):
        raise ValueError(f"K is the kernel matrix of the training rows, (n, n), and has the shape {shapes['K']}.")
    if len(shapes["y"]) not in (1, 2) or shapes["y"][0] != n:
        raise ValueError(
            f"y holds a target for each of the {n} training rows, (n,) or (n, outputs), not {shapes['y']}."
        )
    m = n
    if "K_cross" in shapes:
        m = shapes["K_cross"][0] if shapes["K_cross"] else 0
        if shapes["K_cross"] != (m, n):
            raise ValueError(
                f"K_cross is the kernel of test rows with the {n} training rows, (m, {n}), not {shapes['K_cross']}."
            )
    if "K_test" in shapes and shapes["K_test"] not in ((m, m), (m,)):
        raise ValueError(
            f"K_test is the kernel of the {m} test rows, ({m}, {m}), or its diagonal, not {shapes['K_test']}."
        )


def check_priors(n: int, m: int, prior: ArrayLike, prior_cross: ArrayLike, prior_test: ArrayLike) -> None:
    """An error where the priors of n training rows, both, and m test rows are of other shapes."""
    shapes = [np.shape(array) for array in (prior, prior_cross, prior_test)]
    if shapes != [(n, n), (m, n), (m, m)]:
        raise ValueError(
            f"The priors of {n} training and {m} test rows are {(n, n)}, {(m, n)} and {(m, m)}, not {shapes}."
        )


def check_outputs(name: str, value: ArrayLike, shape: tuple[int, ...]) -> ArrayLike:
    """A number, or an array that broadcasts to `shape`; an error for any other."""
    try:
        fits = np.broadcast_shapes(np.shape(value), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} holds outputs of the shape {shape}, or one number for all, not {np.shape(value)}.")
    return value
