"""neural-tangents' `batch`: a kernel function that works block by block, for any number of inputs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..described import whole
from .kernels import KernelFn


def batch(kernel_fn: Callable, batch_size: int = 0, device_count: int = -1, store_on_device: bool = True) -> Callable:
    """The same kernel function, computed in blocks of at most `batch_size` by `batch_size` inputs; 0 means at once.

    Sizes need not be divisible. The kernels of `stax` go through the tiles of `Network.kernel`, on all cores; any other
    function of two inputs, as that of an empirical kernel, is called for one block after the other. `device_count` and
    `store_on_device` are accepted and not needed.
    """
    size = whole("batch_size", batch_size)
    if size == 0:
        return kernel_fn
    if isinstance(kernel_fn, KernelFn):
        return replace(kernel_fn, block=size)

    def batched(x1, x2=None, *args, **kwargs):
        other = x1 if x2 is None else x2
        starts = [range(0, len(x) or 1, size) for x in (x1, other)]  # of nothing, one empty block
        rows: list[list[Any]] = []
        for i in starts[0]:
            rows.append([])
            for j in starts[1]:
                block = _mirrored(rows[j // size][i // size]) if x2 is None and j < i else None
                second = None if x2 is None and i == j else other[j : j + size]
                rows[-1].append(kernel_fn(x1[i : i + size], second, *args, **kwargs) if block is None else block)
        return _joined([_joined(row, 1) for row in rows], 0)

    return batched


def _mirrored(block: Any) -> Any:
    """The block on the other side of the diagonal, where it is a matrix or a tuple of some; otherwise None."""
    if isinstance(block, tuple):
        parts = [_mirrored(part) for part in block]
        return None if any(part is None for part in parts) else type(block)(*parts)
    return block.T if np.ndim(block) == 2 else None


def _joined(blocks: list[Any], axis: int) -> Any:
    first = blocks[0]
    if isinstance(first, tuple):
        return type(first)(*(_joined(list(parts), axis) for parts in zip(*blocks, strict=True)))
    return (jnp if isinstance(first, jax.Array) else np).concatenate(blocks, axis)
