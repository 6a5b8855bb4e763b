"""Tables and images as NumPy's .npy and .npz files. Pickles inside them are refused."""

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from ..storage.arrays import read_array, read_array_header
from ..storage.files import reading
from .columns import Column, Table, list_names, refuse_non_finite, split

_OWN = "the array"  # the name of the one in an .npy file
_Headers = dict[str, tuple[np.dtype, tuple[int, ...]]]


def read_arrays(path: Path, target: Column | None, drop: Sequence[Column], key: str | None) -> Table:
    """The table in a .npy or .npz file."""
    headers = _read_headers(path)
    named = path.suffix.lower() == ".npz"
    main = _main(path, headers, key) if named else _OWN
    if named and target is None and "y" in headers and main != "y":
        target = "y"
    x = _to_features(path, main, _load(path, headers, main))
    if named and target in headers:
        y, column = _check_target(path, str(target), _load(path, headers, str(target))), None
        if len(y) != len(x):
            raise ValueError(f"{path}: {main!r} has {len(x)} rows and {target!r} {len(y)}. Give one target for each.")
    elif named and isinstance(target, str) and not target.lstrip("-").isdigit():
        raise ValueError(f"{path}: has no array {target!r}. Its arrays are {list_names(list(headers))}.")
    else:
        y, column = None, target
    if column is not None or drop:
        if x.ndim != 2:
            raise ValueError(f"{path}: {main!r} has the shape {x.shape}, and only rows have columns to choose or drop.")
        features, place = split(path, None, x.shape[1], column, drop)
        if place is not None:
            y, target = x[:, place].copy(), place
        x = np.take(x, features, axis=1)
    return Table(x, y, None, target)


def array_columns(path: Path) -> dict[str, str]:
    """The names of the arrays, each with its type and shape."""
    return {name: f"{dtype} {shape}" for name, (dtype, shape) in _read_headers(path).items()}


@contextmanager
def _open(path: Path, name: str) -> Iterator[tuple[IO[bytes], int]]:
    """An array's file and its length."""
    with reading(path, "NumPy file"):
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                yield file, os.fstat(file.fileno()).st_size
        else:
            with zipfile.ZipFile(path) as archive, archive.open(name + ".npy") as member:
                yield member, archive.getinfo(name + ".npy").file_size


def _read_headers(path: Path) -> _Headers:
    """The types and shapes of all arrays, without their numbers."""
    names = [_OWN]
    if path.suffix.lower() == ".npz":
        with reading(path, "NumPy file"), zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    if not names:
        raise ValueError(f"{path}: holds no array. Write one with numpy.savez.")
    headers = {}
    for name in names:
        with _open(path, name) as (file, _):
            headers[name] = read_array_header(file)
    return headers


def _load(path: Path, headers: _Headers, name: str) -> np.ndarray:
    if headers[name][0].hasobject:
        raise ValueError(
            f"{path}: {name!r} holds Python objects, which only unpickling could read, and a pickle can run any program. Save "
            "numbers or texts: array.astype(float) or array.astype(str)."
        )
    with _open(path, name) as (file, size):
        return read_array(file, size)


def _main(path: Path, headers: _Headers, key: str | None) -> str:
    for name in ("x", "X") if key is None else (key,):
        if name in headers:
            return name
    requested = "'x'" if key is None else repr(key)
    raise ValueError(
        f"{path}: has no array {requested}. Its arrays are {list_names(list(headers))}; name one with key."
    )


def _to_features(path: Path, name: str, x: np.ndarray) -> np.ndarray:
    """The features as floats: float64, or float32 where that holds every value."""
    if x.dtype.kind == "U":
        raise ValueError(f"{path}: {name!r} holds texts. Encode them as numbers.")
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise ValueError(
            f"{path}: {name!r} has the shape {x.shape}. Give rows, (n, features), or images, (n, height, width, channels)."
        )
    refuse_non_finite(path, repr(name), x)
    return x.astype(np.result_type(x.dtype, np.float32), copy=False)


def _check_target(path: Path, name: str, y: np.ndarray) -> np.ndarray:
    if y.ndim not in (1, 2):
        raise ValueError(f"{path}: the target {name!r} has the shape {y.shape}. Give (n,), or (n, outputs).")
    refuse_non_finite(path, repr(name), y)
    return y
