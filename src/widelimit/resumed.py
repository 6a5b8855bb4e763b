"""Files that appear when they are whole; those of matrices that take long go on after a kill where they were.

While K.npy is computed, its entries are in K.npy.partial and the tiles done so far in K.npy.progress, a line each after a
first line that says what is computed. A line is written after its tile.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, BinaryIO
from uuid import uuid4

import jax
import numpy as np

Corner = tuple[int, int]
_HASHED = 2**24  # numbers at a time
UNFINISHED: set[Path] = set()  # files to remove where the program ends at once


def check_writable(path: Path) -> None:
    """Refuse what cannot be the name of a file to write; of a symbolic link, what it names."""
    real = Path(os.path.realpath(path))
    folder = real.parent if path.is_symlink() else path.parent
    if real.is_dir():
        raise ValueError(f"{path}: is a folder. Give the name of a file.")
    if real.exists() and not real.is_file():
        raise ValueError(f"{path}: is a device or a pipe. Give the name of a file.")
    if not folder.is_dir():
        raise FileNotFoundError(f"{path}: the folder {folder} does not exist. Make it first.")
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise PermissionError(
            f"{path}: nothing can be written there ({error.strerror}). Give another folder."
        ) from None


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A file to write that has its name only when the work on it has ended well; otherwise nothing is left of it.

    What a symbolic link names is replaced, and not the link.
    """
    check_writable(Path(path))
    path = Path(os.path.realpath(path))
    new = path.with_name(f".{path.name}.{uuid4().hex}.new")
    UNFINISHED.add(new)
    try:
        with new.open("wb") as file:
            yield file
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
        UNFINISHED.discard(new)


@contextmanager
def described_file(
    path: str | os.PathLike, version: int, what: str, writer: str
) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """The header and the arrays of an .npz file of ours; what goes wrong with them is an error about the file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{os.fspath(path)}: is no file. Give the path of a {what}.")
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if any(member.compress_type for member in file.zip.infolist()):
                raise ValueError("its arrays are compressed, as we write none")
            header = json.loads(str(file["header"]))
            arrays = [file[f"array_{i}"] for i in range(len(file.files) - 1)]
        if header["widelimit"] != version:
            raise ValueError(f"it is in format {header['widelimit']!r}, and this widelimit reads {version}")
        yield header, arrays
    except (PermissionError, MemoryError):
        raise
    except Exception as error:
        reason = f": {str(error).rstrip('.')}" if type(error) is ValueError and "pickle" not in str(error) else ""
        raise ValueError(
            f"{os.fspath(path)!r} is no {what} that can be read{reason}. Give a file that {writer} wrote, whole."
        ) from error


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


def digest(*parts: Any) -> str:
    """A name for arrays and texts that changes when any of them does."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray | jax.Array):
            found.update(f"{part.dtype} {part.shape}".encode())
            step = max(1, _HASHED // max(1, prod(part.shape[1:])))  # the whole may be larger than memory
            for start in range(0, len(part), step):
                rows = np.ascontiguousarray(part[start : start + step])
                found.update(rows.reshape(-1).view(np.uint8).data)
        else:
            found.update(repr(part).encode())
    return found.hexdigest()
