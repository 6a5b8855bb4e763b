"""Files that appear when they are whole, and names for what arrays and texts hold."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from uuid import uuid4

import jax
import numpy as np

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
def atomic_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
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
