"""Results as files that appear when they are whole."""

import csv
import gzip
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..numerics.extras import needs_extra
from ..storage.files import atomic_file
from .tables import suffix_of
from .text import is_number

_ROWS = 4096  # at a time
_Arrays = Mapping[str, np.ndarray]
_Writer = Callable[[Any, _Arrays], None]  # of a file, gzipped or not


def write(path: str | os.PathLike[str], columns: Mapping[str, Any], overwrite: bool = False) -> None:
    """Write named columns as CSV, Parquet or .npz, or a single array as .npy, by the suffix; whole or not at all.

    Numbers keep all their digits. In .npz and .npy files arrays may have any shape.
    """
    path = Path(path)
    suffix = suffix_of(path)
    arrays = {name: _to_array(path, name, values) for name, values in columns.items()}
    if suffix not in (".npy", ".npz"):
        _refuse_no_table(path, arrays)
    if not arrays or (suffix == ".npy" and len(arrays) > 1):
        raise ValueError(f"{path}: {len(arrays)} arrays were given. An .npy file holds one, other files one or more.")
    if path.is_dir() or (path.exists() and not overwrite):
        raise FileExistsError(f"{path}: exists. Choose another name, or say overwrite=True for a file to replace.")
    with atomic_file(path) as file:
        _WRITERS[suffix](file, arrays)


def _to_array(path: Path, name: str, values: Any) -> np.ndarray:
    if not isinstance(name, str):
        raise TypeError(f"{path}: columns have names, and {name!r} is none. Give texts.")
    array = np.asarray(values)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{path}: column {name!r} is of type {array.dtype}. Give real numbers or texts, as an array.")
    return array


def _refuse_no_table(path: Path, arrays: _Arrays) -> None:
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise ValueError(
            f"{path}: columns have one axis and one length, and these have {shapes}. Split them, or use .npz."
        )


def _write_csv(file: IO[bytes], arrays: _Arrays, delimiter: str = ",") -> None:
    numbers = [name for name in arrays if is_number(name)]
    if numbers:  # the line would be read as one of data
        raise ValueError(f"A column of CSV is named {numbers[0]!r}, which reads as a number. Put a letter before it.")
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(arrays)
    for start in range(0, len(next(iter(arrays.values()))), _ROWS):
        writer.writerows(zip(*(_fields(a[start : start + _ROWS]) for a in arrays.values()), strict=True))
    text.flush()
    text.detach()


def _fields(column: np.ndarray) -> list[Any]:
    # Python writes all digits of float64; NumPy, more slowly, those of narrower types.
    narrow = column.dtype.kind == "f" and column.dtype != np.float64
    return (column.astype(str) if narrow else column).tolist()


def _write_tsv(file: IO[bytes], arrays: _Arrays) -> None:
    _write_csv(file, arrays, "\t")


def _gzip(write: _Writer) -> _Writer:
    def write_gzip(file: IO[bytes], arrays: _Arrays) -> None:
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:  # the same bytes at any time
            write(packed, arrays)

    return write_gzip


def _write_parquet(file: IO[bytes], arrays: _Arrays) -> None:
    with needs_extra():
        import pyarrow as pa
        import pyarrow.parquet as pq
    pq.write_table(pa.table({name: pa.array(array) for name, array in arrays.items()}), file)


def _write_npz(file: IO[bytes], arrays: _Arrays) -> None:
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:  # numpy.savez takes no array named "file"
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.save(member, array, allow_pickle=False)


def _write_npy(file: IO[bytes], arrays: _Arrays) -> None:
    (array,) = arrays.values()
    np.save(file, array, allow_pickle=False)


_WRITERS: dict[str, _Writer] = {
    ".csv": _write_csv, ".tsv": _write_tsv, ".csv.gz": _gzip(_write_csv), ".tsv.gz": _gzip(_write_tsv),
    ".parquet": _write_parquet, ".npz": _write_npz, ".npy": _write_npy,
}  # fmt: skip
