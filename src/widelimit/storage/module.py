"""Modules that print as the code that makes them and turn into JSON and back.

Both are read off the constructor: its parameters are the description, and those at their defaults are left out.
Nothing is imported or executed in reading: a description names a class of a given table and plain values.
"""

import inspect
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..numerics.checks import check_int, check_number, check_optional_number


class ReprAsCode(eqx.Module):
    """A module whose constructor's parameters are also its attributes."""

    def argument(self, name: str) -> Any:
        """The value of a parameter of the constructor."""
        return getattr(self, name)

    def arguments(self) -> dict[str, Any]:
        """The parameters of the constructor that are not at their defaults, in order."""
        parameters = inspect.signature(type(self)).parameters
        values = {name: self.argument(name) for name in parameters}
        return {name: v for name, v in values.items() if not _is_default(v, parameters[name].default)}

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        shown = [
            _show(value) if parameters[name].default is inspect.Parameter.empty else f"{name}={_show(value)}"
            for name, value in self.arguments().items()
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def parameter(**options: Any) -> Any:
    """A field that holds such a number, or None where that is the default."""
    return eqx.field(converter=check_optional_number if options.get("default", 0) is None else check_number, **options)


def static_degree(most: int) -> Any:
    """A field that holds a degree, part of what JAX compiles for; beyond `most` its factorials leave float64."""
    return eqx.field(static=True, converter=partial(check_int, "The degree", most=most))


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def _show(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    if isinstance(value, jax.Array):
        try:
            return repr(float(value))
        except jax.errors.ConcretizationTypeError:  # in a message from inside jit
            return "..."
    return repr(value)


def nested(name: str, parts) -> str:
    """A call with one part on each line, indented."""
    if not parts:
        return f"{name}()"
    lines = ",\n".join(repr(part) for part in parts)
    return f"{name}(\n" + "\n".join(f"    {line}" for line in lines.split("\n")) + ",\n)"


def plain(value: Any) -> Any:
    """A parameter as JSON knows it; an error for a function."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    raise TypeError(f"{value!r} cannot be written as JSON.")
