"""The pickles in which CIFAR is published, read without trusting them.

A pickle is a program that may call any function it names. The few that an array of integers needs are replaced here by
stand-ins that only take notes; every other name is refused, and nothing of NumPy runs on what a file says.
"""

import io
import pickle
import pickletools
import re
from typing import Any

import numpy as np


def unpickle(raw: bytes) -> dict[str, Any]:
    """The dict in a pickle of plain values and arrays of integers; strings of Python 2 come as bytes."""

    # Classes of this one call: a pickle can overwrite the attributes of what it is given.
    class Dtype:
        def __init__(self, name: Any, *_: Any):
            self.name, self.order = _text(name), "|"

        def __setstate__(self, state: Any) -> None:
            self.order = _text(state[1])

    class Array:
        def __init__(self, *_: Any):
            self.value: Any = None

        def __setstate__(self, state: Any) -> None:
            _, shape, dtype, by_columns, content = state
            self.value = _array(content, dtype, shape, "F" if by_columns else "C")

    def from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> Array:
        array = Array()
        array.value = _array(content, dtype, shape, order)
        return array

    def encode(text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"it encodes as {encoding!r}")
        return text.encode("latin1")

    known: dict[str, Any] = {
        "numpy.dtype": Dtype,
        "numpy.ndarray": Array,
        "numpy.core.multiarray._reconstruct": Array,
        "numpy.core.numeric._frombuffer": from_buffer,
        "_codecs.encode": encode,
    }

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            stand_in = known.get(f"{module.replace('numpy._core', 'numpy.core', 1)}.{name}")
            if stand_in is None:
                raise pickle.UnpicklingError(f"it asks for {module}.{name}, which images do not need: nothing was run")
            return stand_in

    operations: Any = pickletools.genops(raw)
    for operation, argument, _ in operations:
        # The place of a note, for which Python would take memory up to there.
        if operation.name in ("PUT", "LONG_BINPUT") and argument > len(raw):
            raise pickle.UnpicklingError(f"it notes {argument} values, and has {len(raw)} bytes")
    value: Any = Reader(io.BytesIO(raw), encoding="bytes").load()
    if not isinstance(value, dict):
        raise pickle.UnpicklingError(f"it holds a {type(value).__name__}, not a dict")
    return {_text(key): v.value if isinstance(v, Array) else v for key, v in value.items()}


def _array(content: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    if not re.fullmatch(r"[iu][1248]", dtype.name) or dtype.order not in ("|", "<", ">", "="):
        raise pickle.UnpicklingError(f"it holds an array of {dtype.name!r}, where integers are expected")
    return np.frombuffer(content, dtype.order + dtype.name).reshape(shape, order=order)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
