"""Rows filled up to few sizes, since a program is compiled for one shape."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Rows = TypeVar("Rows", bound=np.ndarray | jax.Array)


def power_of_two(size: int) -> int:
    """The next power of two."""
    return 1 << max(size - 1, 0).bit_length()


def bucket(rows: int) -> int:
    """A number of rows, this or somewhat more, that many inputs share: 1, 2, 4, ... 64, then multiples of 64.

    A program is compiled for one shape, which takes seconds; inputs filled up to few shapes share theirs.
    """
    return power_of_two(rows) if rows <= 64 else -(-rows // 64) * 64


def pad_rows(x: Rows, count: int) -> Rows:
    """x with `count` rows: the last one is repeated, and zeros where there is none. NumPy or JAX as x is."""
    missing = count - len(x)
    if missing <= 0:
        return x
    library = jnp if isinstance(x, jax.Array) else np
    last = x[-1:] if len(x) else library.zeros((1, *x.shape[1:]), x.dtype)
    return library.concatenate([x, library.repeat(last, missing, axis=0)])
