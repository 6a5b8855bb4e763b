"""Tables of your own: rows of numbers, with a target or without.

`read` takes CSV (.csv, .tsv, and both with .gz), Parquet, .npy and .npz, each by its suffix. What a network could not use,
such as text, gaps and infinities, is refused with its place; nothing is guessed, filled in or left out.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from .arrays import array_columns, read_arrays
from .columns import Column, Table
from .parquet import parquet_columns, read_parquet
from .text import read_text, text_columns

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npy", ".npz")


def read(
    path: str | os.PathLike[str],
    target: Column | None = None,
    drop: Column | Iterable[Column] = (),
    key: str | None = None,
) -> Table:
    """The table in a file; `target` and `drop` are columns by name, or by place where they have no names or from the end.

    A first line of CSV without any number is one of names. Features are float64; a target of whole numbers stays whole,
    and one of texts stays texts. Of an .npz file the features are the array `x` or `X`, or `key`; the target is the
    array `y`, or the one that `target` names. Arrays may be rows (n, features) or images (n, height, width, channels), and
    keep float32.
    """
    path, suffix = _check_exists(path)
    drop = [drop] if isinstance(drop, str | int) else list(drop)
    if key is not None and suffix != ".npz":
        raise ValueError(f"{path}: key={key!r} names an array of an .npz file, and this is none. Leave it out.")
    if suffix == ".parquet":
        return read_parquet(path, target, drop)
    if suffix in (".npy", ".npz"):
        return read_arrays(path, target, drop, key)
    return read_text(path, target, drop)


def columns_of(path: str | os.PathLike[str]) -> dict[str, str]:
    """What is in a file without reading it all: each column or array, with its type, and its shape where that is known.

    Columns of CSV are "number" or "text" by their first field; those without names are called "0", "1", ...
    """
    path, suffix = _check_exists(path)
    if suffix == ".parquet":
        return parquet_columns(path)
    if suffix in (".npy", ".npz"):
        return array_columns(path)
    return text_columns(path)


def suffix_of(path: Path) -> str:
    """The part of the name that says the format, or an error."""
    matches = [suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)]
    if not matches:
        raise ValueError(f"{path}: has a name of no known format. Let it end in one of: {', '.join(SUFFIXES)}.")
    return matches[0]


def _check_exists(path: str | os.PathLike[str]) -> tuple[Path, str]:
    path = Path(path)
    suffix = suffix_of(path)
    if not path.is_file():
        seen = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path}: {seen}. Give the path of a file.")
    with path.open("rb"):  # or say why not
        return path, suffix
