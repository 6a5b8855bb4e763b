"""Old names of modules that moved: they still give what is in the new ones, with a warning."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any


def forward(old: str, new: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that moved from `old` to `new`."""

    def attribute(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warnings.warn(f"{old} is now {new}. The old name goes in version 0.3.", DeprecationWarning, stacklevel=2)
        module = import_module(new)
        try:
            return getattr(module, name)
        except AttributeError:
            return import_module(f"{new}.{name}")

    return attribute
