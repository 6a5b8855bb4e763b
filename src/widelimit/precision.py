"""Input at the border: checked, and computed in its own precision.

NumPy input gives NumPy output: float64 is computed in float64 inside a scope of its own, whatever JAX's global setting;
integers, booleans and float16 become float32. JAX arrays keep their dtype. Nothing is ever silently cut down.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def checked_inputs(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both inputs as arrays of one kind and dtype, with a batch and a channel axis, finite and of matching shape."""
    jaxy = any(isinstance(x, jax.Array) for x in (x1, x2))
    x1 = _array("x1", x1, jaxy)
    if x2 is None:
        return x1, None
    x2 = _array("x2", x2, jaxy)
    if x1.shape[1:] != x2.shape[1:]:
        what = "channels" if x1.shape[1:-1] == x2.shape[1:-1] else "shapes"
        raise ValueError(
            f"x1 and x2 have different {what}: {x1.shape} and {x2.shape}. All axes but the first must agree."
        )
    dtype = jnp.result_type(x1, x2) if jaxy else np.result_type(x1, x2)
    return x1.astype(dtype), x2.astype(dtype)


def common_arrays(*values: Any, jaxy: bool = False) -> list[Any]:
    """Numbers and arrays as arrays of one kind, JAX if any is or `jaxy`, and one floating dtype."""
    if jaxy or any(isinstance(value, jax.Array) for value in values):
        dtype = jnp.result_type(*values)
        dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)
        return [jnp.asarray(v, dtype) for v in values]
    dtypes = [np.asarray(v).dtype for v in values if not isinstance(v, int | float)]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    return [np.asarray(v, dtype if dtype in (np.float32, np.float64) else np.float32) for v in values]


def _array(name: str, x: Any, jaxy: bool) -> Any:
    if not isinstance(x, jax.Array):
        given, x = x, _numpy(name, x)
        if jaxy and isinstance(given, np.ndarray) and x.dtype == np.float64 and jnp.asarray(0.0).dtype != np.float64:
            raise TypeError(
                f"{name} is a NumPy array of float64 beside a JAX array, and JAX would cut it down to float32. Give both "
                "as NumPy arrays, or convert it with .astype('float32')."
            )
    if jaxy:
        x = jnp.asarray(x)
        _refuse_complex(name, x)
        x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)
    if x.ndim < 2:
        raise ValueError(
            f"{name} has the shape {x.shape}. Give one row for each input, (n, channels) or (n, height, width, channels); "
            f"a single input x is x[None]."
        )
    if 0 in x.shape[1:]:
        raise ValueError(f"{name} has the shape {x.shape}: an axis other than the first is empty.")
    _refuse_non_finite(name, x)
    return x


def _numpy(name: str, x: Any) -> np.ndarray:
    try:
        x = np.asarray(x)
        _refuse_complex(name, x)
        if x.dtype.kind == "f" and x.dtype.itemsize > 8:
            raise TypeError(f"it has the dtype {x.dtype}, wider than float64; convert it with .astype('float64')")
        return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32 if x.dtype.kind in "iubf" else float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is not an array of real numbers: {error}. Give an array of shape (n, ..., channels)."
        ) from None


def _refuse_complex(name: str, x: Any) -> None:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{name} is complex ({x.dtype}), and networks here take real inputs. Give its real part.")


def _refuse_non_finite(name: str, x: Any) -> None:
    try:
        if np.isfinite(x).all() if isinstance(x, np.ndarray) else jnp.isfinite(x).all():
            return
    except jax.errors.TracerBoolConversionError:  # inside jit there is nothing to look at
        return
    x = np.asarray(x, np.float64)
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
    raise ValueError(f"{name} is not finite: {x[place]} at {place}. Remove or impute such values.")


@contextmanager
def precision_of(x: Any) -> Iterator[Callable]:
    """A scope in which x keeps its precision, and the function that turns a result into the kind of x."""
    if isinstance(x, jax.Array):
        yield lambda result: result
        return
    with jax.enable_x64(x.dtype == np.float64):
        yield lambda result: jax.tree.map(np.asarray, result)
