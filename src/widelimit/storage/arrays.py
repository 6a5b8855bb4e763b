"""Arrays in NumPy's .npy format, alone or in an .npz file, read without trusting what they declare."""

from math import prod
from typing import IO

import numpy as np
from numpy.lib import format as npy


def read_array_header(file: IO[bytes]) -> tuple[np.dtype, tuple[int, ...]]:
    """The type and shape that an array declares; the file is left where its numbers begin."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"it is in version {version}")
    # Version 3 is version 2 with names of fields in UTF-8, and arrays with fields are refused.
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except (MemoryError, RecursionError):  # of Python's parser, on brackets in brackets
        raise ValueError("the header of an array is no dictionary of numbers and texts") from None
    if any(length < 0 for length in shape):
        raise ValueError(f"it has the shape {shape}")
    return dtype, shape


def read_array(file: IO[bytes], size: int) -> np.ndarray:
    """The array in a file of `size` bytes, of real numbers or texts, in this machine's order of bytes."""
    dtype, shape = read_array_header(file)
    if dtype.kind not in "biufU" or (dtype.kind == "f" and dtype.itemsize > 8):
        raise ValueError(f"it holds an array of type {dtype}, and real numbers up to float64 and texts are read here")
    rest = size - file.tell()
    if rest != prod(shape) * dtype.itemsize:  # before any memory is taken
        raise ValueError(f"an array says it is {dtype} {shape}, and {rest} bytes follow")
    file.seek(0)
    array = npy.read_array(file, allow_pickle=False)
    file.read(1)  # the end, where a zip file's checksum is compared
    return array.astype(dtype.newbyteorder("="), copy=False)
