"""Classes whose objects files may hold. Each declares its own state, and files know it by its name.

    @storable
    class ZCA(BaseEstimator):
        _saved = {"mean_": "columns", "whitening_": "columns columns"}

A declaration says of every attribute what it is: a type, or a union of types; or, as a text, the shape of an array of
finite floating-point numbers, which may be None if the text ends with "?". Names in shapes are sizes, which all arrays of
an object must agree on. Subclasses add to what their bases declare.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

Declaration = Mapping[str, Any]
_T = TypeVar("_T", bound=type)
_CLASSES: dict[str, type] = {}
_DECLARED: dict[type, Declaration] = {}  # of classes that cannot do so themselves
_MISSING = object()


def storable(cls: _T) -> _T:
    """Let files hold objects of a class that declares its state as `_saved`."""
    _CLASSES[cls.__name__] = cls
    return cls


def declare(cls: type, state: Declaration) -> None:
    """Let files hold objects of a class that cannot declare its state itself: of another package, or a named tuple."""
    _DECLARED[cls] = state
    storable(cls)


def is_storable(cls: type) -> bool:
    """Whether files may hold objects of a class; a subclass must say so itself."""
    return _CLASSES.get(cls.__name__) is cls


def storable_names(base: type) -> list[str]:
    """The names of all such classes that derive from `base`."""
    return sorted(name for name, cls in _CLASSES.items() if issubclass(cls, base))


def storable_class(name: str, base: type) -> Any:
    """The class of a name in a file, which derives from `base`."""
    cls = _CLASSES.get(name)
    if cls is None or not issubclass(cls, base):
        raise ValueError(f"it has a part of an unknown kind, {name!r}")
    return cls


def declared_state(cls: type) -> dict[str, Any]:
    """What a class and its bases declare."""
    state: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        state.update(vars(base).get("_saved", _DECLARED.get(base, {})))
    return state


def check_state(values: Mapping[str, Any], state: Declaration, sizes: dict[str, int]) -> None:
    """Refuse values that are not what was declared. `sizes` holds the sizes known so far, and learns new ones."""
    for name, kind in state.items():
        value = values.get(name, _MISSING)
        if isinstance(kind, str):
            if not (kind.endswith("?") and value is None):
                _check_array(name, value, kind.rstrip("?").split(), sizes)
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float)):
            raise ValueError(f"its {name} is missing, or of another kind")
        elif is_storable(type(value)) and isinstance(value, tuple):
            check_state(value._asdict(), declared_state(type(value)), sizes)  # type: ignore[attr-defined]


def _check_array(name: str, value: Any, shape: list[str], sizes: dict[str, int]) -> None:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.ndim != len(shape):
        raise ValueError(f"its {name} is missing, or no array of numbers over ({', '.join(shape)})")
    for size, length in zip(shape, value.shape, strict=True):
        if sizes.setdefault(size, length) != length:
            raise ValueError(f"its arrays do not fit together: {name} has {length} {size}, and others {sizes[size]}")
    if not np.all(np.isfinite(value)):
        raise ValueError("its arrays hold NaN or infinity")
