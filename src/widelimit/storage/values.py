"""Values as JSON and arrays, and back.

Plain values are themselves. Others are an object with a key that names their kind, such as {"array": 3}, the array number 3.
The rooms that know networks, feature maps and estimators add their kinds with `add_kind`; nothing else can be read.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .state import is_storable, storable_class

Encoded = dict[str, Any]


class _Kind(NamedTuple):
    """A kind of value: what it is in Python, and how it turns into an object with its key and back."""

    cls: type
    encode: Callable[[Any, "Encoder"], Encoded]
    decode: Callable[[Encoded, "Decoder"], Any]


_KINDS: dict[str, _Kind] = {}


def add_kind(
    key: str, cls: type, encode: Callable[[Any, "Encoder"], Encoded], decode: Callable[[Encoded, "Decoder"], Any]
) -> None:
    """Let files hold values of a class, as objects that have `key`."""
    _KINDS[key] = _Kind(cls, encode, decode)


class Encoder:
    """Turns values into JSON, and collects the arrays that it refers to by number.

    `resumable` keeps what is needed only to learn more from further rows.
    """

    def __init__(self, resumable: bool = False):
        self.resumable = resumable
        self.arrays: list[np.ndarray] = []

    def encode(self, value: Any) -> Any:
        """One value as JSON."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"number": str(value)}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # a generator has moved on; what it drew is in the file
        for kind in _KINDS.values():
            if isinstance(value, kind.cls):
                return kind.encode(value, self)
        if isinstance(value, np.ndarray):
            return self._encode_array(value)
        if isinstance(value, tuple) and is_storable(type(value)):
            return {"tuple": type(value).__name__, "values": [self.encode(v) for v in value]}
        if isinstance(value, list | tuple):
            items = [self.encode(v) for v in value]
            return items if isinstance(value, list) else {"items": items}
        raise TypeError(f"A file holds numbers, texts, arrays and networks, not {value!r}.")

    def keep(self, array: np.ndarray) -> int:
        """The number of an array in the file."""
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _encode_array(self, value: np.ndarray) -> Encoded:
        if value.dtype.kind in "biufU":
            return {"array": self.keep(value)}
        if value.dtype.kind == "O" and all(isinstance(v, str | int | float) for v in value.ravel()):
            return {"objects": self.encode(value.ravel().tolist()), "shape": list(value.shape)}
        raise TypeError(f"A file holds arrays of numbers and texts, not of {value.dtype}.")


class Decoder:
    """Turns JSON back into values; `arrays` are those of the file."""

    def __init__(self, arrays: Sequence[np.ndarray] = ()):
        self.arrays = arrays

    def decode(self, data: Any) -> Any:
        """One value; an error for a kind that is not known."""
        if isinstance(data, list):
            return [self.decode(value) for value in data]
        if not isinstance(data, dict):
            return data
        for key in data:
            if key in _KINDS:
                return _KINDS[key].decode(data, self)
            if key in _PLAIN:
                return _PLAIN[key](self, data)
        raise ValueError(f"it has a part of an unknown kind, {sorted(data)[:3]}")

    def array(self, number: Any) -> np.ndarray:
        """The array of a number."""
        if type(number) is not int or not 0 <= number < len(self.arrays):
            raise ValueError(f"it refers to the array {number!r}, and has {len(self.arrays)}")
        return self.arrays[number]

    def _objects(self, data: Encoded) -> np.ndarray:
        values = self.decode(data["objects"])
        objects = np.empty(len(values), dtype=object)
        objects[:] = values
        return objects.reshape(data["shape"])

    def _tuple(self, data: Encoded) -> Any:
        cls = storable_class(data["tuple"], tuple)
        return cls(*(self.decode(value) for value in data["values"]))


_PLAIN: dict[str, Callable[[Decoder, Encoded], Any]] = {
    "number": lambda decoder, data: float(data["number"]),
    "array": lambda decoder, data: decoder.array(data["array"]),
    "objects": Decoder._objects,
    "items": lambda decoder, data: tuple(decoder.decode(value) for value in data["items"]),
    "tuple": Decoder._tuple,
}
