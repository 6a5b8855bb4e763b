"""`get`: one name, several, or None for the usual ones."""

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any


def asked(get: Any, known: Sequence[str], usual: tuple[str, ...] = ("nngp", "ntk")) -> tuple[str, ...]:
    """The names asked for, each once."""
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
    """One result for a name, a named tuple for several."""
    values = [compute(name) for name in names]
    return values[0] if isinstance(get, str) else namedtuple(title, names)(*values)
