"""Checks of single numbers that users give."""

from math import isfinite, nan
from numbers import Real
from operator import index
from typing import Any

import jax
import numpy as np


def check_number(value: Any) -> Any:
    """A parameter as a Python float, which JAX traces and differentiates; JAX's own arrays stay what they are."""
    if isinstance(value, jax.Array) and value.shape == ():
        return value
    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    try:
        number = nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # of a whole number
        number = nan
    if not isfinite(number):
        raise TypeError(f"A parameter is a single, finite real number, not {value!r}.")
    return number


def check_int(what: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """A whole number, Python's or NumPy's, within bounds."""
    try:
        count = None if isinstance(value, bool) else index(value)
    except TypeError:
        count = None
    if count is None or count < least or (most is not None and count > most):
        bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} is a whole number {bounds}, not {value!r}.")
    return count


def check_optional_number(value: Any) -> Any:
    """`check_number`, but None stays None."""
    return None if value is None else check_number(value)
