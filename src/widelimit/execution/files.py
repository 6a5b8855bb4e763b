"""Matrices in .npy files, which go on after a kill where they were.

While K.npy is computed, its entries are in K.npy.partial and the tiles done so far in K.npy.progress, a line each after a
first line that says what is computed. A line is written after its tile.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np

from .grid import Block, Grid
from .sinks import Matrices, Tile


class MatrixFiles:
    """One file for each of several matrices of the same shape, and the journal of all: a sink of tiles.

    Call `open` before the job, with values that tell whether an earlier computation is the same.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], what: str):
        """Look for an earlier computation of `what`."""
        self.paths = [Path(path) for path in paths]
        for path in self.paths:
            if path.suffix != ".npy" or not path.parent.is_dir():
                raise ValueError(f"out is the path of an .npy file in a folder that exists, not {str(path)!r}.")
        self.partial = [path.with_name(path.name + ".partial") for path in self.paths]
        self.journal = self.paths[0].with_name(self.paths[0].name + ".progress")
        self.lock = Lock()
        self.what = what
        self.done: set[tuple[int, int]] = set()  # the first row and column of each tile
        self.sides: tuple[int, int] | None = None  # of the tiles of the earlier computation
        self.probe: list[float] | None = None  # some of its values
        if self.journal.exists() and all(path.exists() for path in self.partial):
            self._read()

    def _read(self) -> None:
        first, *lines = self.journal.read_text().split("\n")
        header = json.loads(first)
        if header["what"] != self.what:
            self._refuse()
        rows, columns = header["sides"]
        self.sides, self.probe = (rows, columns), header["probe"]
        for line in lines[:-1]:  # the last has no end: it is empty, or was cut off
            i, j = line.split()
            self.done.add((int(i), int(j)))

    def _refuse(self) -> None:
        raise ValueError(
            f"{self.journal} is of another computation: another network, other inputs or another get. Give the same to go "
            "on, another out, or remove the file to start anew."
        )

    def open(self, grid: Grid, dtype: np.dtype, probe: list[float], symmetric: bool, own_diagonal: bool) -> None:
        """Make the files, or take up those that are there if some values of the kernel agree with theirs."""
        mode: Literal["r+", "w+"] = "w+"
        if self.probe is None:
            self.journal.unlink(missing_ok=True)  # before the files, which it would say are filled
        elif np.allclose(probe, self.probe, rtol=1e3 * np.finfo(dtype).eps, atol=0):
            mode = "r+"
        else:
            self._refuse()
        arrays = [np.lib.format.open_memmap(path, mode, dtype, grid.shape) for path in self.partial]
        self.files, self.matrices = arrays, Matrices(arrays, symmetric, own_diagonal)
        header = json.dumps({"what": self.what, "sides": grid.sides, "probe": probe})
        new = self.journal.with_name(self.journal.name + ".new")
        new.write_text("".join([header + "\n", *(f"{i} {j}\n" for i, j in sorted(self.done))]))
        new.replace(self.journal)

    def missing(self, grid: Grid) -> Grid:
        return grid.without({block.index for block in grid.blocks if block.corner in self.done})

    def write(self, block: Block, value: Tile) -> None:
        self.matrices.write(block, value)
        i, j = block.corner
        with self.lock, self.journal.open("a") as file:
            file.write(f"{i} {j}\n")

    def result(self) -> list[np.ndarray]:
        """Give the files their names, and the matrices, read from them."""
        for array in self.files:
            array.flush()
        for partial, path in zip(self.partial, self.paths, strict=True):
            partial.replace(path)
        self.journal.unlink()
        return [np.load(path, mmap_mode="r") for path in self.paths]
