"""Windows that slide over an axis: what convolutions and pools share.

The kernel of a convolution needs the sum of a covariance over all displacements *common* to two pixels, that of a pool
the sums over either pixel's window. Both are `window_sum`: along two axes at once, or along one after the other.
"""

from collections.abc import Sequence
from typing import cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics import materialize
from ..numerics.checks import check_int

PADDINGS = ("SAME", "VALID", "CIRCULAR")


def as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    """One number or several, as several."""
    return tuple(cast(Sequence[int], value)) if np.ndim(value) else (cast(int, value),)


def per_axis(what: str, value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """`value` as whole positive numbers, one for each spatial axis."""
    values = as_tuple(value) if np.ndim(value) else as_tuple(value) * rank
    if len(values) != rank:
        raise ValueError(f"{what} takes {rank} whole positive number(s), one for each spatial axis, not {value!r}.")
    return tuple(check_int(f"Each entry of {what}", v, least=1) for v in values)


def check_padding(padding: str) -> None:
    """Refuse an unknown padding."""
    if padding not in PADDINGS:
        raise ValueError(f"padding is one of {', '.join(PADDINGS)}, not {padding!r}.")


def window_count(length: int, size: int, stride: int, padding: str) -> int:
    """How many windows fit an axis."""
    return -(-length // stride) if padding != "VALID" else (length - size) // stride + 1


def pad_widths(length: int, size: int, stride: int, padding: str) -> tuple[int, int]:
    """How much is added at both ends."""
    if padding == "VALID":
        return 0, 0
    total = max((window_count(length, size, stride, padding) - 1) * stride + size - length, 0)
    return total // 2, total - total // 2


def pad_axes(
    x: Float[Array, "..."], axes: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], padding: str
) -> Float[Array, "..."]:
    """Zeros, or for CIRCULAR the other end, around the given axes."""
    widths = [(0, 0)] * x.ndim
    for axis, size, stride in zip(axes, sizes, strides, strict=True):
        widths[axis] = pad_widths(x.shape[axis], size, stride, padding)
    if not any(low or high for low, high in widths):
        return x
    return jnp.pad(x, widths, mode="wrap" if padding == "CIRCULAR" else "constant")


def window_sum(x: Array, axes: tuple[int, ...], size: int, stride: int, padding: str) -> Array:
    """The sum over the windows of axes of equal length, moving along all of them together."""
    count = window_count(x.shape[axes[0]], size, stride, padding)
    x = pad_axes(x, axes, (size,) * len(axes), (stride,) * len(axes), padding)

    def shift(offset: int) -> Array:
        cut = [slice(None)] * x.ndim
        for axis in axes:
            cut[axis] = slice(offset, offset + (count - 1) * stride + 1, stride)
        return x[tuple(cut)]

    return sum((shift(offset) for offset in range(1, size)), shift(0))


def common_window_sum(
    x: Array, axes: Sequence[tuple[int, ...]], sizes: tuple[int, ...], strides: tuple[int, ...], padding: str
) -> Array:
    """The sum over the windows of all spatial axes; `axes` has for each where it is in either input."""
    for i, (both, size, stride) in enumerate(zip(axes, sizes, strides, strict=True)):
        x = window_sum(x if i == 0 else materialize(x), both, size, stride, padding)
    return x
