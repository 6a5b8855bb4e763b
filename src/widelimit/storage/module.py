"""Modules that print as the code that makes them, and turn into JSON and back.

Both are read off the constructor: its parameters, without those at their defaults. `Dense(W_std=1.5)` is
`{"Dense": {"W_std": 1.5}}`. Decoding imports and executes nothing: JSON names a class of a given table, and plain values.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from ..numerics.checks import check_int, check_number, check_optional_number

_M = TypeVar("_M", bound="ReprAsCode")


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
        arguments = [
            _repr(value) if parameters[name].default is inspect.Parameter.empty else f"{name}={_repr(value)}"
            for name, value in self.arguments().items()
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"


def parameter(**options: Any) -> Any:
    """A field that holds one number, which JAX differentiates; or None where that is the default."""
    return eqx.field(converter=check_optional_number if options.get("default", 0) is None else check_number, **options)


def static_degree(most: int) -> Any:
    """A field that holds a degree, static to JAX. Beyond `most` its factorials overflow float64."""
    return eqx.field(static=True, converter=partial(check_int, "The degree", most=most))


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def _repr(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    if isinstance(value, jax.Array):
        try:
            return repr(float(value))
        except jax.errors.ConcretizationTypeError:  # in a message from inside jit
            return "..."
    return repr(value)


def nested(name: str, parts: Sequence[Any]) -> str:
    """A call with one part on each line, indented."""
    if not parts:
        return f"{name}()"
    lines = ",\n".join(repr(part) for part in parts)
    return f"{name}(\n" + "\n".join(f"    {line}" for line in lines.split("\n")) + ",\n)"


def encode_argument(value: Any) -> Any:
    """A plain parameter as JSON; an error for a function."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [encode_argument(v) for v in value]
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    raise TypeError(f"{value!r} cannot be written as JSON.")


def decode_argument(value: Any) -> Any:
    """The parameter of its JSON, in which a tuple is a list."""
    return tuple(value) if isinstance(value, list) else value


def encode_module(module: ReprAsCode, encode: Callable[[Any], Any] = encode_argument) -> dict[str, Any]:
    """A module as JSON; `encode` does its parameters."""
    return {type(module).__name__: {name: encode(value) for name, value in module.arguments().items()}}


def decode_module(data: Any, classes: Mapping[str, type[_M]], decode: Callable[[Any], Any] = decode_argument) -> _M:
    """The module of its JSON, of a class in the table; `decode` does its parameters."""
    if not (isinstance(data, dict) and len(data) == 1):
        raise ValueError(f"Not a part of a network: {data!r}. Each part is one name with its parameters.")
    ((name, arguments),) = data.items()
    if name not in classes or not isinstance(arguments, dict):
        raise ValueError(f"There is no layer, activation or sketch {data!r}. Was it written by a newer widelimit?")
    values = {key: decode(value) for key, value in arguments.items()}
    try:
        return classes[name](**values)
    except TypeError as error:
        raise ValueError(f"{name} cannot be made of {values!r}: {error}.") from None
