"""Matrices in files that take long, which go on after a kill where they were.

While K.npy is computed, its entries are in K.npy.partial and the tiles done so far in K.npy.progress, a line each after a
first line that says what is computed. A line is written after its tile.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

Corner = tuple[int, int]


class ResumedFiles:
    """One file for each of several matrices of the same shape, and the journal of all."""

    def __init__(self, paths: Sequence[str | os.PathLike], what: str):
        """Look for an earlier computation of `what`."""
        self.paths = [Path(path) for path in paths]
        for path in self.paths:
            if path.suffix != ".npy" or not path.parent.is_dir():
                raise ValueError(f"out is the path of an .npy file in a folder that exists, not {str(path)!r}.")
        self.partial = [path.with_name(path.name + ".partial") for path in self.paths]
        self.journal = self.paths[0].with_name(self.paths[0].name + ".progress")
        self.lock = Lock()
        self.what = what
        self.done: set[Corner] = set()
        self.sides: tuple[int, int] | None = None  # of the tiles of the earlier computation
        self.probe: list[float] | None = None  # some of its values
        if self.journal.exists() and all(path.exists() for path in self.partial):
            self._read()

    def _read(self) -> None:
        first, *lines = self.journal.read_text().split("\n")
        header = json.loads(first)
        if header["what"] != self.what:
            self._refuse()
        self.sides, self.probe = tuple(header["sides"]), header["probe"]
        for line in lines[:-1]:  # the last has no end: it is empty, or was cut off
            i, j = line.split()
            self.done.add((int(i), int(j)))

    def _refuse(self) -> None:
        raise ValueError(
            f"{self.journal} is of another computation: another network, other inputs or another get. Give the same to go "
            "on, another out, or remove the file to start anew."
        )

    def open(self, shape: tuple[int, int], dtype: np.dtype, sides: tuple[int, int], probe: list[float]) -> None:
        """Make the files, or take up those that are there if some values of the kernel agree with theirs."""
        going_on = self.probe is not None
        if self.probe is not None and not np.allclose(probe, self.probe, rtol=1e3 * np.finfo(dtype).eps, atol=0):
            self._refuse()
        if not going_on:
            self.journal.unlink(missing_ok=True)  # before the files, which it would say are filled
        mode: Any = "r+" if going_on else "w+"
        self.arrays = [np.lib.format.open_memmap(path, mode, dtype, shape) for path in self.partial]
        header = json.dumps({"what": self.what, "sides": sides, "probe": probe})
        new = self.journal.with_name(self.journal.name + ".new")
        new.write_text("".join([header + "\n", *(f"{i} {j}\n" for i, j in sorted(self.done))]))
        new.replace(self.journal)

    def record(self, corner: Corner) -> None:
        """Note that a tile is done; from any thread."""
        with self.lock, self.journal.open("a") as file:
            file.write(f"{corner[0]} {corner[1]}\n")

    def finish(self) -> list[np.ndarray]:
        """Give the files their names, and the matrices, read from them."""
        for array in self.arrays:
            array.flush()
        for partial, path in zip(self.partial, self.paths, strict=True):
            partial.replace(path)
        self.journal.unlink()
        return [np.load(path, mmap_mode="r") for path in self.paths]
