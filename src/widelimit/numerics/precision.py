"""Checks of what users give, and the precision in which it is computed.

NumPy input gives NumPy output: float64 is computed in float64 inside a scope of its own, whatever JAX's global setting;
integers, booleans and float16 become float32. JAX arrays keep their dtype, but for kernels of half precision, which are
float32. Nothing is silently cut down. Only while JAX traces a function of something else, such as the parameters, does NumPy
input follow JAX's own setting.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_CHECKED_AT_ONCE = 2**22  # numbers


def check_inputs(x1: Any, x2: Any, names: tuple[str, str] = ("x1", "x2")) -> tuple[Any, Any]:
    """Both inputs as arrays of one kind and dtype. Raises unless they are finite and of matching shape, (n, ..., channels)."""
    with_jax = any(isinstance(x, jax.Array) for x in (x1, x2))
    x1 = _input(names[0], x1, with_jax)
    if x2 is None:
        return x1, None
    x2 = _input(names[1], x2, with_jax)
    if x1.shape[1:] != x2.shape[1:]:
        what = "channels" if x1.shape[1:-1] == x2.shape[1:-1] else "shapes"
        raise ValueError(
            f"x1 and x2 have different {what}: {x1.shape} and {x2.shape}. All axes but the first must agree."
        )
    dtype = jnp.result_type(x1, x2) if with_jax else np.result_type(x1, x2)
    return _as(x1, dtype), _as(x2, dtype)


def _as(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


def common_arrays(*values: Any) -> list[Any]:
    """Numbers and arrays as arrays of one kind, JAX if any is, and one floating dtype; plain numbers follow the arrays."""
    with_jax = any(isinstance(value, jax.Array) for value in values)
    double = any(isinstance(value, np.ndarray) and value.dtype == np.float64 for value in values)
    if double and not with_jax:  # whole numbers beside float64 keep all their digits
        values = tuple(
            v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype.kind in "iu" else v for v in values
        )
    arrays = [v if isinstance(v, int | float) else _floating("an argument", v, with_jax) for v in values]
    dtypes = [v.dtype for v in arrays if not isinstance(v, int | float)]
    if with_jax:
        return [jnp.asarray(v, jnp.result_type(*dtypes)) for v in arrays]
    return [np.asarray(v, np.result_type(*dtypes) if dtypes else np.float64) for v in arrays]


def in_input_precision(fn: Callable[..., Any], *arrays: Any) -> Any:
    """fn(*arrays), for arrays of one dtype, or None. NumPy arrays are computed in their own precision and give NumPy arrays."""
    if not isinstance(arrays[0], np.ndarray):
        return fn(*arrays)
    try:
        with precision_scope(arrays[0]):
            return jax.tree.map(np.asarray, fn(*arrays))
    except jax.errors.TracerArrayConversionError:  # something else is traced, and so is the result
        dtype = jnp.result_type(float) if arrays[0].dtype == np.float64 else arrays[0].dtype
        return fn(*(None if x is None else jnp.asarray(x.astype(dtype)) for x in arrays))


def precision_scope(x: Any) -> AbstractContextManager[Any]:
    """The scope in which arrays like x are computed: JAX's 64-bit mode for NumPy's float64, the present one for JAX arrays."""
    return jax.enable_x64(x.dtype == np.float64) if isinstance(x, np.ndarray) else nullcontext()


def _input(name: str, x: Any, with_jax: bool) -> Any:
    x = _floating(name, x, with_jax)
    if x.ndim < 2:
        raise ValueError(
            f"{name} has the shape {x.shape}. Give one row for each input, (n, channels) or (n, height, width, channels); "
            f"a single input x is x[None]."
        )
    if 0 in x.shape[1:]:
        raise ValueError(f"{name} has the shape {x.shape}: an axis other than the first is empty.")
    _refuse_non_finite(name, x)
    return x


def _floating(name: str, x: Any, with_jax: bool) -> Any:
    """x as an array of floats, of JAX or of NumPy."""
    original = x
    if not isinstance(x, jax.Array):
        x = _numpy(name, x)
        cut = x.dtype == np.float64 and jnp.asarray(0.0).dtype != np.float64
        if with_jax and isinstance(original, np.ndarray) and cut:
            raise TypeError(
                f"{name} is a NumPy array of float64 beside a JAX array, and JAX would cut it down to float32. Give both "
                "as NumPy arrays, or convert it with .astype('float32')."
            )
    _refuse_complex(name, x)
    if with_jax:
        x = jnp.asarray(x)
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)
    return x


def _numpy(name: str, x: Any) -> np.ndarray:
    if x is None:
        raise TypeError(f"{name} is None, where an array of real numbers is needed.")
    if hasattr(x, "toarray"):
        raise TypeError(f"{name} is a sparse matrix, and kernels here take dense ones. Give {name}.toarray().")
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, and masks are not known here. Impute it with {name}.filled(value).")
    try:
        x = np.asarray(x)
        x = x.astype(np.float64) if x.dtype.kind == "O" else x
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is not an array of real numbers ({error}). Give an array of shape (n, ..., channels)."
        ) from None
    _refuse_complex(name, x)
    if x.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} is not an array of real numbers, its dtype is {x.dtype}. Give an array of shape (n, ..., channels)."
        )
    if x.dtype.itemsize > 8:
        raise TypeError(f"{name} has the dtype {x.dtype}, wider than float64. Convert it with .astype('float64').")
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


_all_finite = jax.jit(lambda x: jnp.isfinite(x).all())  # compiled: no array of answers, as large as x, is made


def _refuse_complex(name: str, x: Any) -> None:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{name} is complex ({x.dtype}), and only real numbers are taken here. Give its real part.")


def _refuse_non_finite(name: str, x: Any) -> None:
    library: Any = np if isinstance(x, np.ndarray) else jnp
    step = max(1, _CHECKED_AT_ONCE // max(1, prod(x.shape[1:])))  # x may be a file larger than memory
    for start in range(0, len(x), step) if library is np else [0]:
        part = x[start : start + step] if library is np else x
        try:
            if _all_finite(part) if library is jnp else np.isfinite(part).all():
                continue
        except jax.errors.TracerBoolConversionError:  # inside jit there is nothing to look at
            return
        first, *rest = (int(i) for i in np.argwhere(~np.isfinite(np.asarray(part, np.float64)))[0])
        value, place = float(part[first, *rest]), (start + first, *rest)
        raise ValueError(f"{name} is not finite: {value} at {place}. Remove or impute such values.")
