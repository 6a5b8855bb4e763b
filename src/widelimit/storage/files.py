"""Files that appear when they are whole, and names for what arrays and texts hold."""

import hashlib
import os
import warnings
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
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
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
def reading(
    path: str | os.PathLike[str], what: str, remedy: str = "It may be cut off, or of another kind."
) -> Iterator[None]:
    """Turn whatever goes wrong inside into a ValueError that names the file, what was seen in it, and what to do.

    Those who wrote the parsers did not foresee every broken file: JSON, zip, gzip, pickle and NumPy raise a dozen kinds.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            yield
    except (PermissionError, MemoryError):  # may be no fault of the file
        raise
    except UnicodeDecodeError as error:
        seen = f"byte {error.object[error.start]:#04x}: {error.reason}"
        raise ValueError(f"{os.fspath(path)}: is not text in UTF-8 ({seen}). Save it in that encoding.") from error
    except Exception as error:
        kind = "" if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: "
        seen = f"{kind}{error}".rstrip(".: ")
        raise ValueError(f"{os.fspath(path)}: is no {what} that can be read ({seen}). {remedy}") from error


def digest(*parts: Any) -> str:
    """A name for arrays and texts that changes when any of them does."""
    hashed = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray | jax.Array):
            hashed.update(f"{part.dtype} {part.shape}".encode())
            step = max(1, _HASHED // max(1, prod(part.shape[1:])))  # the whole may be larger than memory
            for start in range(0, len(part), step):
                rows = np.ascontiguousarray(part[start : start + step])
                hashed.update(rows.reshape(-1).view(np.uint8).data)
        else:
            hashed.update(repr(part).encode())
    return hashed.hexdigest()
