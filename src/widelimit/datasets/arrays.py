"""Tables and images as NumPy's .npy and .npz files. Pickles inside them are refused."""

import os
import zipfile
from collections.abc import Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from .asking import reading
from .columns import Column, refuse_non_finite, shown, split

_OWN = "the array"  # the name of the one in an .npy file


def read_arrays(path: Path, target: Column | None, drop: Sequence[Column], key: str | None) -> tuple[Any, ...]:
    """Features, target, no names, and the name or place of the target."""
    kinds = _kinds(path)
    named = path.suffix.lower() == ".npz"
    main = _main(path, kinds, key) if named else _OWN
    if named and target is None and "y" in kinds and main != "y":
        target = "y"
    x = _numbers(path, main, _loaded(path, kinds, main))
    if named and target in kinds:
        y, place = _target(path, str(target), _loaded(path, kinds, str(target))), None
        if len(y) != len(x):
            raise ValueError(f"{path}: {main!r} has {len(x)} rows and {target!r} {len(y)}. Give one target for each.")
    elif named and isinstance(target, str) and not target.lstrip("-").isdigit():
        raise ValueError(f"{path}: has no array {target!r}. Its arrays are {shown(list(kinds))}.")
    else:
        y, place = None, target
    if place is not None or drop:
        if x.ndim != 2:
            raise ValueError(f"{path}: {main!r} has the shape {x.shape}, and only rows have columns to choose or drop.")
        features, chosen = split(path, None, x.shape[1], place, drop)
        if chosen is not None:
            y, target = x[:, chosen].copy(), chosen
        x = np.take(x, features, axis=1)
    return x, y, None, target


def array_columns(path: Path) -> dict[str, str]:
    """The names of the arrays, each with its type and shape."""
    return {name: f"{dtype} {shape}" for name, (dtype, shape) in _kinds(path).items()}


@contextmanager
def _opened(path: Path, name: str):
    """An array's file and its length."""
    with reading(path, "a NumPy file"):
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                yield file, os.fstat(file.fileno()).st_size
        else:
            with zipfile.ZipFile(path) as archive, archive.open(name + ".npy") as member:
                yield member, archive.getinfo(name + ".npy").file_size


def _kinds(path: Path) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """The types and shapes of all arrays, from their headers."""
    names = [_OWN]
    if path.suffix.lower() == ".npz":
        with reading(path, "a NumPy file"), zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    if not names:
        raise ValueError(f"{path}: holds no array. Write one with numpy.savez.")
    kinds = {}
    for name in names:
        with _opened(path, name) as (file, _):
            kinds[name] = _header(file)
    return kinds


def _header(file: IO[bytes]) -> tuple[np.dtype, tuple[int, ...]]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"it is in version {version}")
    # Version 3 is version 2 with names of fields in UTF-8, and arrays with fields are refused.
    shape, _, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    if any(length < 0 for length in shape):
        raise ValueError(f"it has the shape {shape}")
    return dtype, shape


def _loaded(path: Path, kinds: dict[str, tuple[np.dtype, tuple[int, ...]]], name: str) -> np.ndarray:
    dtype, shape = kinds[name]
    if dtype.hasobject:
        raise ValueError(
            f"{path}: {name!r} holds Python objects, which only unpickling could read, and a pickle can run any program. Save "
            "numbers or texts: array.astype(float) or array.astype(str)."
        )
    if dtype.kind not in "biufU" or (dtype.kind == "f" and dtype.itemsize > 8):
        raise ValueError(f"{path}: {name!r} is of type {dtype}, and real numbers up to float64 or texts are read here.")
    with _opened(path, name) as (file, size):
        _header(file)
        rest = size - file.tell()
        if rest != prod(shape) * dtype.itemsize:  # before any memory is taken
            raise ValueError(f"{name!r} says it is {dtype} {shape}, and {rest} bytes follow")
        file.seek(0)
        array = npy.read_array(file, allow_pickle=False)
        file.read(1)  # the end, where a zip file's checksum is compared
    return array.astype(dtype.newbyteorder("="), copy=False)


def _main(path: Path, kinds: dict[str, Any], key: str | None) -> str:
    for name in ("x", "X") if key is None else (key,):
        if name in kinds:
            return name
    wanted = "'x'" if key is None else repr(key)
    raise ValueError(f"{path}: has no array {wanted}. Its arrays are {shown(list(kinds))}; name one with key.")


def _numbers(path: Path, name: str, x: np.ndarray) -> np.ndarray:
    """The features as floats: float64, or float32 where that holds every value."""
    if x.dtype.kind == "U":
        raise ValueError(f"{path}: {name!r} holds texts. Encode them as numbers.")
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise ValueError(
            f"{path}: {name!r} has the shape {x.shape}. Give rows, (n, features), or images, (n, height, width, channels)."
        )
    refuse_non_finite(path, repr(name), x)
    return x.astype(np.result_type(x.dtype, np.float32), copy=False)


def _target(path: Path, name: str, y: np.ndarray) -> np.ndarray:
    if y.ndim not in (1, 2):
        raise ValueError(f"{path}: the target {name!r} has the shape {y.shape}. Give (n,), or (n, outputs).")
    refuse_non_finite(path, repr(name), y)
    return y
