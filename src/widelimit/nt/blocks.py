"""A function of two batches of inputs, computed block by block."""

from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np

from ..execution.executors import Pipeline, execute, stream
from ..execution.grid import Grid
from ..execution.sinks import JoinedTiles
from ..execution.sources import ArraySource

Array = np.ndarray | jax.Array
Value = TypeVar("Value")  # an array, or a named tuple of arrays and None
Numbered = tuple[Array, np.ndarray]  # rows, and which they are


def in_blocks(fn: Callable[[Array, Array | None], Value], x1: Array, x2: Array | None, size: int) -> Value:
    """fn(x1, x2), an array or a tuple of arrays whose first axes are those of x1 and x2, from blocks of at most `size`.

    With x2=None the blocks below the diagonal are mirrored, where they are matrices.
    """

    def program(first: Numbered, second: Numbered) -> Value:
        alone = x2 is None and np.array_equal(first[1], second[1])
        value = fn(first[0], None if alone else second[0])
        _check(value)
        return value

    inputs = (x if isinstance(x, Array) else np.asarray(x) for x in (x1, x1 if x2 is None else x2))
    sources = [ArraySource((x, np.arange(len(x)))) for x in inputs]
    shape = len(sources[0]), len(sources[1])
    sink: JoinedTiles[Value] = JoinedTiles(mirrored=x2 is None)
    if x2 is None:
        for block, value in stream(program, Grid.of_tiles(shape, (size, size), symmetric=True), sources, ahead=0):
            sink.write(block, value)
    return execute(program, Grid.of_tiles(shape, (size, size)), sources, sink, Pipeline(ahead=0))


def _check(value: object) -> None:
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, tuple):
            _check(part)
        elif part is not None and not isinstance(part, jax.Array | np.ndarray):
            raise TypeError(
                f"batch puts arrays together, or tuples of them, and the function gave {type(part).__name__}."
            )
