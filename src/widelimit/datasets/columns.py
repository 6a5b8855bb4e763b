"""Tables, and which of their columns is the target, which are dropped, and which are left as features."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

Column = str | int  # by its name, or by its place


class Table(NamedTuple):
    """Features (n, ...), targets or None, the names of the features if they have any, and that of the target.

    A target without a name is called by the place of its column, counted from 0.
    """

    x: np.ndarray
    y: np.ndarray | None
    names: tuple[str, ...] | None
    target: Column | None


def split(
    path: Path, names: Sequence[str] | None, count: int, target: Column | None, drop: Sequence[Column]
) -> tuple[list[int], int | None]:
    """The places of the features, and that of the target."""
    places = {name: place for place, name in enumerate(names or ())}
    dropped = {_place(path, names, places, count, column) for column in drop}
    target_place = None if target is None else _place(path, names, places, count, target)
    if target_place is not None and target_place in dropped:
        raise ValueError(
            f"{path}: {label(names, target_place)} is the target and dropped as well. Leave it out of one."
        )
    features = [place for place in range(count) if place != target_place and place not in dropped]
    if not features:
        raise ValueError(f"{path}: has {count} columns, and none is left as a feature. Drop fewer.")
    return features, target_place


def label(names: Sequence[str] | None, place: int) -> str:
    """A column in a message."""
    return f"column {place} (counted from 0)" if names is None else f"column {names[place]!r}"


def target_name(names: Sequence[str] | None, place: int | None) -> Column | None:
    """The target by its name if it has one."""
    return place if names is None or place is None else names[place]


def _place(path: Path, names: Sequence[str] | None, places: dict[str, int], count: int, column: Column) -> int:
    if isinstance(column, str) and column in places:
        return places[column]
    place: int | None = None
    digits = r"-?\d{1,9}" if names is None else r"-\d{1,9}"  # as texts they come from a command line
    if not isinstance(column, str) or re.fullmatch(digits, column):
        place = int(column)
    if place is not None and -count <= place < count:
        return place % count
    known = f"columns are numbered from 0 to {count - 1}" if names is None else f"columns are {list_names(names)}"
    raise ValueError(f"{path}: has no column {column!r}. Its {known}; -1 is the last.")


def list_names(names: Sequence[str]) -> str:
    """Names in a message: the first twenty."""
    first = ", ".join(map(repr, names[:20]))
    return first if len(names) <= 20 else f"{first} and {len(names) - 20} more"


def refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    """Refuse a name that two columns have."""
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{path}: has two columns named {twice!r}. Rename one.")


def refuse_non_finite(path: Path, what: str, values: np.ndarray) -> None:
    """Refuse the first NaN or infinity."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        at = place[0] if len(place) == 1 else place
        raise ValueError(
            f"{path}: {what} is not finite: {float(values[place])} at {at} (counted from 0). Remove or impute such values."
        )
