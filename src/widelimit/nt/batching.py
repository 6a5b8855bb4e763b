"""neural-tangents' `batch`: a kernel function that works block by block, for any number of inputs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..described import whole
from .kernels import Kernel


def batch(kernel_fn: Callable, batch_size: int = 0, device_count: int = -1, store_on_device: bool = True) -> Callable:
    """The same kernel function, computed in blocks of at most `batch_size` by `batch_size` inputs; 0 means at once.

    Sizes need not be divisible. `device_count` and `store_on_device` are accepted and not needed: results are put
    together where the blocks are.
    """
    size = whole("batch_size", batch_size)
    if size == 0:
        return kernel_fn

    def batched(x1, x2=None, *args, **kwargs):
        if isinstance(x1, Kernel):
            raise TypeError(
                "A batched kernel function takes inputs, not a Kernel. Batch the function of the whole network."
            )
        if kwargs.get("diagonal_batch"):
            return _joined([kernel_fn(x1[i : i + size], None, *args, **kwargs) for i in range(0, len(x1), size)], 0)
        other = x1 if x2 is None else x2
        blocks: dict[tuple[int, int], Any] = {}
        for i in range(0, len(x1), size):
            for j in range(0, len(other), size):
                if x2 is None and (mirrored := _mirrored(blocks.get((j, i)))) is not None:
                    blocks[i, j] = mirrored
                    continue
                second = None if x2 is None and i == j else other[j : j + size]
                blocks[i, j] = kernel_fn(x1[i : i + size], second, *args, **kwargs)
        rows = [[block for (k, _), block in blocks.items() if k == i] for i in range(0, len(x1), size)]
        return _joined([_joined(row, 1) for row in rows], 0)

    return batched


def _mirrored(block: Any) -> Any:
    """The block on the other side of the diagonal, where it is a matrix or a tuple of some; otherwise None."""
    if isinstance(block, jax.Array | np.ndarray):
        return block.T if block.ndim == 2 else None
    if isinstance(block, tuple):
        parts = [_mirrored(part) for part in block]
        return None if any(part is None for part in parts) else type(block)(*parts)
    return None


def _joined(blocks: list[Any], axis: int) -> Any:
    first = blocks[0]
    if isinstance(first, Kernel):
        arrays = {name: _joined([getattr(block, name) for block in blocks], axis) for name in ("nngp", "ntk")}
        return first.replace(**arrays)
    if isinstance(first, tuple):
        return type(first)(*(_joined(list(parts), axis) for parts in zip(*blocks, strict=True)))
    if first is None:
        return None
    return (jnp if isinstance(first, jax.Array) else np).concatenate(blocks, axis)
