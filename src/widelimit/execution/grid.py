"""Which blocks a job has: ranges of rows, or tiles of a matrix, in a fixed order."""

from collections.abc import Container
from dataclasses import dataclass, replace
from itertools import product
from math import ceil


def ranges(count: int, size: int) -> list[slice]:
    """The ranges of at most `size` that 0, ..., count - 1 are cut into; only the last may be shorter."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def even(count: int, most: int) -> int:
    """The size of the fewest equal ranges of at most `most`; the last may be shorter."""
    return ceil(count / ceil(count / min(count, most)))


@dataclass(frozen=True, slots=True)
class Block:
    """What one call of a program computes: rows, or the rows and columns of a tile; `index` counts the blocks of the grid."""

    index: int
    rows: slice
    columns: slice | None = None

    @property
    def on_diagonal(self) -> bool:
        """Whether it is a tile of rows with themselves, if rows and columns of the matrix are the same."""
        return self.rows == self.columns

    @property
    def corner(self) -> tuple[int, ...]:
        """Its first row, or its first row and column."""
        return tuple(side.start for side in self._ranges)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows, or rows and columns."""
        return tuple(side.stop - side.start for side in self._ranges)

    @property
    def units(self) -> int:
        """What it counts for in a progress bar: its rows, or one tile."""
        return self.shape[0] if self.columns is None else 1

    @property
    def _ranges(self) -> tuple[slice, ...]:
        return (self.rows,) if self.columns is None else (self.rows, self.columns)


@dataclass(frozen=True)
class Grid:
    """Blocks of (rows,) or (rows, columns) of at most `sides`.

    Of a symmetric matrix there are only the tiles on and above the diagonal; a sink mirrors them. Of no rows there is one
    empty block, so that a result has its other axes.
    """

    shape: tuple[int, ...]
    sides: tuple[int, ...]
    symmetric: bool
    blocks: tuple[Block, ...]

    @classmethod
    def of_rows(cls, count: int, size: int) -> "Grid":
        """Ranges of at most `size` rows."""
        blocks = (Block(i, rows) for i, rows in enumerate(_ranges(count, size)))
        return cls((count,), (size,), False, tuple(blocks))

    @classmethod
    def of_tiles(cls, shape: tuple[int, int], sides: tuple[int, int], symmetric: bool = False) -> "Grid":
        """Tiles of at most `sides`, row by row."""
        if symmetric and (shape[0] != shape[1] or sides[0] != sides[1]):
            raise ValueError(f"A symmetric matrix and its tiles are squares, and these are {shape} and {sides}.")
        pairs = product(*map(_ranges, shape, sides))
        kept = (pair for pair in pairs if not symmetric or pair[0].start <= pair[1].start)
        return cls(shape, sides, symmetric, tuple(Block(i, *pair) for i, pair in enumerate(kept)))

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def units(self) -> int:
        """What all blocks count for in a progress bar."""
        return sum(block.units for block in self.blocks)

    def part(self, i: int, n: int) -> "Grid":
        """Part i of n, counted from 0: consecutive blocks, whose numbers differ by one at most between parts."""
        if not 0 <= i < n:
            raise ValueError(f"Of {n} parts there are part 0 to part {n - 1}, not part {i}.")
        return replace(self, blocks=self.blocks[len(self) * i // n : len(self) * (i + 1) // n])

    def without(self, done: Container[int]) -> "Grid":
        """The blocks whose index is not in `done`."""
        return replace(self, blocks=tuple(block for block in self.blocks if block.index not in done))


def _ranges(count: int, size: int) -> list[slice]:
    return ranges(count, size) or [slice(0, 0)]
