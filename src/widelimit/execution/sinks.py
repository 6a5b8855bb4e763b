"""Where finished blocks go: arrays on the host or the device, matrices, sums.

A new kind of sink (a Zarr array, a table in a database) is a class with the three methods of `Sink`. Several blocks may be
written at once from different threads, no block twice in a job, and in any order. What must survive a kill is stored by
`write` before it returns, and left out by `missing` the next time; the sinks here keep blocks in memory and begin anew.
`files` has one that goes on.
"""

import operator
from collections.abc import Sequence
from functools import partial, reduce
from threading import Lock
from typing import Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .grid import Block, Grid

Value = TypeVar("Value")  # an array, or a pytree of arrays
Value_contra = TypeVar("Value_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)


class Sink(Protocol[Value_contra, Result_co]):
    """A place for the values of blocks."""

    def missing(self, grid: Grid) -> Grid:
        """The blocks that are still to be computed."""
        ...

    def write(self, block: Block, value: Value_contra) -> None:
        """Take the value of a block."""
        ...

    def result(self) -> Result_co:
        """All blocks together, once each was written."""
        ...


class InMemory:
    """A sink that has no blocks to begin with."""

    def missing(self, grid: Grid) -> Grid:
        return grid


class HostRows(InMemory, Generic[Value]):
    """NumPy arrays of `count` rows, made when the first block comes; values may have more rows than their block."""

    def __init__(self, count: int):
        self._count, self._lock = count, Lock()
        self._arrays: Value | None = None

    def write(self, block: Block, value: Value) -> None:
        parts = jax.tree.map(np.asarray, value)
        with self._lock:
            if self._arrays is None:
                self._arrays = jax.tree.map(lambda x: np.empty((self._count, *x.shape[1:]), x.dtype), parts)
        size = block.shape[0]
        jax.tree.map(lambda x, part: operator.setitem(x, block.rows, part[:size]), self._arrays, parts)

    def result(self) -> Value:
        return _check_written(self._arrays)


class DeviceRows(InMemory, Generic[Value]):
    """JAX arrays of `count` rows on the device of the values, for executors of one thread."""

    def __init__(self, count: int):
        self._count = count
        self._arrays: Value | None = None

    def write(self, block: Block, value: Value) -> None:
        if self._arrays is None:
            self._arrays = jax.tree.map(lambda x: jnp.empty((self._count, *x.shape[1:]), x.dtype), value)
        size, start = block.shape[0], block.rows.start
        own = jax.tree.map(lambda part: part if len(part) == size else part[:size], value)
        self._arrays = jax.tree.map(lambda x, part: _place(x, part, start), self._arrays, own)

    def result(self) -> Value:
        return _check_written(self._arrays)


@partial(jax.jit, donate_argnums=0)
def _place(rows: jax.Array, part: jax.Array, start: int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(rows, part, start, 0)


class Tile(NamedTuple):
    """The entries of a tile of each of several matrices, and the entries of its rows with themselves.

    Arrays may be larger than the block: what is beyond its rows and columns is left out.
    """

    entries: Sequence[jax.Array | np.ndarray]
    diagonal: Sequence[jax.Array | np.ndarray]


class Matrices(InMemory):
    """NumPy arrays, one for each matrix, into which tiles are written.

    Of a `symmetric` matrix the tiles on and above the diagonal come, and are mirrored. Where rows and columns are the same
    inputs, `own_diagonal`, the entries on the diagonal are those of rows with themselves, which are exact.
    """

    def __init__(self, arrays: Sequence[np.ndarray], symmetric: bool, own_diagonal: bool):
        self.arrays, self.symmetric, self.own_diagonal = arrays, symmetric, own_diagonal

    def write(self, block: Block, value: Tile) -> None:
        (height, width), rows, columns = block.shape, block.rows, block.columns
        for target, entries, diagonal in zip(self.arrays, value.entries, value.diagonal, strict=True):
            tile = np.asarray(entries)[:height, :width]
            if self.symmetric and block.on_diagonal:
                tile = tile.copy()
                below = np.tril_indices(height, -1)
                tile[below] = tile.T[below]
                if self.own_diagonal:
                    np.fill_diagonal(tile, np.asarray(diagonal)[:height])
            target[rows, columns] = tile
            if self.symmetric and not block.on_diagonal:
                target[columns, rows] = tile.T

    def result(self) -> Sequence[np.ndarray]:
        return self.arrays


class JoinedTiles(Generic[Value]):
    """Tiles put together in NumPy or JAX as they are, also while JAX traces them; values are arrays or named tuples of them.

    With `mirrored`, a tile that is a matrix, or several, gives its mirror image too, and `missing` leaves that out.
    """

    def __init__(self, mirrored: bool):
        self._mirrored = mirrored
        self._tiles: dict[tuple[int, ...], Value] = {}

    def missing(self, grid: Grid) -> Grid:
        return grid.without({block.index for block in grid.blocks if block.corner in self._tiles})

    def write(self, block: Block, value: Value) -> None:
        i, j = block.corner
        self._tiles[i, j] = value
        if self._mirrored and all(np.ndim(leaf) == 2 for leaf in jax.tree.leaves(value)):
            self._tiles.setdefault((j, i), jax.tree.map(lambda leaf: leaf.T, value))

    def result(self) -> Value:
        rows = sorted({i for i, _ in self._tiles})
        columns = sorted({j for _, j in self._tiles})
        slabs = (_concatenate([self._tiles[i, j] for j in columns], 1) for i in rows)
        return _concatenate(list(slabs), 0)


def _concatenate(values: list[Value], axis: int) -> Value:
    """One value of several; a function may make a new type of named tuple in each call, so the first's is taken."""
    leaves, structure = jax.tree.flatten(values[0])
    libraries = [jnp if isinstance(leaf, jax.Array) else np for leaf in leaves]
    several = zip(*map(jax.tree.leaves, values), strict=True)
    joined = [library.concatenate(parts, axis) for library, parts in zip(libraries, several, strict=True)]
    return jax.tree.unflatten(structure, joined)


class Sum(InMemory, Generic[Value]):
    """The sum of all values, added leaf by leaf in a fixed tree of block indices: 0 + 1, 2 + 3, (0 + 1) + (2 + 3), ...

    So its last digits depend neither on the order in which blocks are finished nor on how many are in work. Sums of the
    parts of a grid, put together by `merge`, are the sum of the whole grid.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], Value] = {}  # by level and place: of blocks place * 2^level and following
        self._lock = Lock()

    def write(self, block: Block, value: Value) -> None:
        self._add(0, block.index, value)

    def merge(self, other: "Sum[Value]") -> None:
        """Take over what another sum has, of other blocks of the same grid."""
        for (level, place), value in other._nodes.items():
            self._add(level, place, value)

    def _add(self, level: int, place: int, value: Value) -> None:
        while True:
            with self._lock:
                sibling = self._nodes.pop((level, place ^ 1), None)
                if sibling is None:
                    self._nodes[level, place] = value
                    return
            value = _plus(sibling, value) if place & 1 else _plus(value, sibling)
            level, place = level + 1, place >> 1

    def result(self) -> Value:
        in_order = sorted(self._nodes, key=lambda node: node[1] << node[0])
        if not in_order:
            raise ValueError("There is no sum of no blocks. Give a grid with one block at least.")
        return reduce(_plus, (self._nodes[node] for node in in_order))


def _plus(a: Value, b: Value) -> Value:
    return jax.tree.map(operator.add, a, b)


def _check_written(arrays: Value | None) -> Value:
    if arrays is None:
        raise ValueError("No block was written, so the shape of the result is not known.")
    return arrays
