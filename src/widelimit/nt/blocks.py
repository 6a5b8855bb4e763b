"""A function of two batches of inputs, computed block by block."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def in_blocks(fn: Callable, x1: Any, x2: Any, size: int) -> Any:
    """fn(x1, x2), an array or a tuple of arrays whose first axes are those of x1 and x2, from blocks of at most `size`.

    With x2=None the blocks below the diagonal are mirrored, where they are matrices.
    """
    other = x1 if x2 is None else x2
    starts = [range(0, len(x) or 1, size) for x in (x1, other)]  # of nothing, one empty block
    rows: list[list[Any]] = []
    for i in starts[0]:
        rows.append([])
        for j in starts[1]:
            block = _mirrored(rows[j // size][i // size]) if x2 is None and j < i else None
            second = None if x2 is None and i == j else other[j : j + size]
            rows[-1].append(fn(x1[i : i + size], second) if block is None else block)
    return _joined([_joined(row, 1) for row in rows], 0)


def _mirrored(block: Any) -> Any:
    if isinstance(block, tuple):
        parts = [_mirrored(part) for part in block]
        return None if any(part is None for part in parts) else type(block)(*parts)
    return block.T if np.ndim(block) == 2 else None


def _joined(blocks: list[Any], axis: int) -> Any:
    first = blocks[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        return type(first)(*(_joined(list(parts), axis) for parts in zip(*blocks, strict=True)))
    if not isinstance(first, jax.Array | np.ndarray):
        raise TypeError(f"batch puts arrays together, or tuples of them, and the function gave {type(first).__name__}.")
    return (jnp if isinstance(first, jax.Array) else np).concatenate(blocks, axis)
