"""Matrices in .npy files that take long: they appear when they are whole, and a killed computation goes on where it was.

While K.npy is computed, its entries are in K.npy.partial and the tiles done so far in K.npy.progress, a line each after a
first line that says what is computed. A line is written after its tile.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

Corner = tuple[int, int]


class ResumedFiles:
    """One file for each of several matrices of the same shape, and the journal of all."""

    def __init__(self, paths: Sequence[str | os.PathLike], shape: tuple[int, int], dtype: np.dtype, what: str):
        """Start, or go on where an earlier computation of `what` ended."""
        self.paths = [Path(path) for path in paths]
        self.partial = [path.with_name(path.name + ".partial") for path in self.paths]
        self.journal = self.paths[0].with_name(self.paths[0].name + ".progress")
        self.lock = Lock()
        self.done: set[Corner] = set()
        for path in self.paths:
            if path.suffix != ".npy" or not path.parent.is_dir():
                raise ValueError(f"out is the path of an .npy file in a folder that exists, not {str(path)!r}.")
        going_on = self.journal.exists() and all(path.exists() for path in self.partial)
        if going_on:
            self._read(what)
        mode: Any = "r+" if going_on else "w+"
        self.arrays = [np.lib.format.open_memmap(path, mode, dtype, shape) for path in self.partial]
        self.journal.write_text("".join([what + "\n", *(f"{i} {j}\n" for i, j in sorted(self.done))]))

    def _read(self, what: str) -> None:
        first, *lines = self.journal.read_text().split("\n")
        if first != what:
            raise ValueError(
                f"{self.journal} is of another computation: another network, other inputs, get or memory. Give the same "
                "to go on, another out, or remove the file to start anew."
            )
        for line in lines[:-1]:  # the last has no end: it is empty, or was cut off
            i, j = line.split()
            self.done.add((int(i), int(j)))

    def record(self, corner: Corner) -> None:
        """Note that a tile is done; from any thread."""
        with self.lock, self.journal.open("a") as file:
            file.write(f"{corner[0]} {corner[1]}\n")

    def finish(self) -> list[np.ndarray]:
        """Give the files their names, and the matrices, read from them."""
        for array, partial, path in zip(self.arrays, self.partial, self.paths, strict=True):
            array.flush()
            partial.replace(path)
        self.journal.unlink()
        return [np.load(path, mmap_mode="r") for path in self.paths]


def digest(*parts: Any) -> str:
    """A name for arrays and texts that changes when any of them does."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype} {part.shape}".encode())
            for row in part:  # a row at a time: the whole may be larger than memory
                found.update(np.ascontiguousarray(row).data)
        else:
            found.update(repr(part).encode())
    return found.hexdigest()
