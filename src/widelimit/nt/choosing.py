"""Names that users give: the argument `get` of kernel functions, and names of neural-tangents that are not here."""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def names_of(get: Any, known: Sequence[str], usual: tuple[str, ...] = ("nngp", "ntk")) -> tuple[str, ...]:
    """The names that `get` stands for, each once."""
    names = (
        usual
        if get is None
        else (get,)
        if isinstance(get, str)
        else tuple(get)
        if isinstance(get, Sequence)
        else (get,)
    )
    if not names or any(name not in known for name in names) or len(set(names)) < len(names):
        raise ValueError(f"get is None, a name or a tuple of different names among {', '.join(known)}, not {get!r}.")
    return names


def select(get: Any, names: tuple[str, ...], compute: Callable[[str], Any], title: str = "Kernel") -> Any:
    """The value of a single name, or a named tuple of several values."""
    values = [compute(name) for name in names]
    return values[0] if isinstance(get, str) else namedtuple(title, names)(*values)


def missing_name(module: str, name: str, nearest: Mapping[str, str], hint: str = "") -> AttributeError:
    """The error for a name that a module lacks; of those that neural-tangents has, it says the nearest here."""
    if name in nearest:
        return AttributeError(f"{module}.{name} of neural-tangents is not offered. The nearest is {nearest[name]}.")
    return AttributeError(f"widelimit.{module} has no {name!r}.{hint}")
