"""Tables as text: fields between commas, semicolons or tabs, quoted or not, gzipped or not.

NumPy's own parser reads the numbers, in C and with no more memory than they take. It says little about what it refuses, so
a file with something wrong is gone through once more, field by field, to say where.
"""

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..storage.files import reading
from .columns import Column, Table, label, list_names, refuse_duplicates, split, target_name

_SAMPLE = 20  # lines to guess the delimiter from
_MISSING = ("", "?", "na", "n/a", "nan", "null", "none")


class Layout(NamedTuple):
    """How a file is written, from its first lines."""

    delimiter: str
    names: tuple[str, ...] | None  # of a first line without a number
    skipped: int  # lines before the first row
    row: list[str]  # the first


def read_text(path: Path, target: Column | None, drop: Sequence[Column]) -> Table:
    """The table in a text file."""
    layout = layout_of(path)
    names, count = layout.names, len(layout.row)
    features, target_place = split(path, names, count, target, drop)
    codes: dict[str, int] = {}  # of the target's texts

    def code(text: str) -> int:
        return codes.setdefault(text.strip(), len(codes))

    quoted = False

    def note_quotes(lines: Iterable[str]) -> Iterator[str]:
        nonlocal quoted
        for line in lines:
            quoted = quoted or '"' in line
            yield line

    others = sorted(set(range(count)) - set(features))
    converters: Any = {place: code if place == target_place else _zero for place in others}
    with reading(path, "CSV file"), _open(path) as file:
        list(islice(file, layout.skipped))
        values, seen = None, "rows of different lengths"
        try:
            values = np.loadtxt(
                note_quotes(file),
                delimiter=layout.delimiter,
                comments=None,
                quotechar='"',
                converters=converters,
                ndmin=2,
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            seen = str(error)
    if quoted:
        _refuse_open_quotes(path, layout)
    if values is None or values.shape[1] != count or not np.isfinite(values).all():
        raise ValueError(_what_is_wrong(path, layout, features) or f"{path}: is no CSV file that can be read ({seen}).")
    x = values if len(features) == count else np.take(values, features, axis=1)
    y = None
    if target_place is not None:
        codes_of_rows = values[:, target_place].astype(np.intp)
        y = _to_target(path, label(names, target_place), list(codes), codes_of_rows)[codes_of_rows]
    kept = None if names is None else tuple(names[i] for i in features)
    return Table(x, y, kept, target_name(names, target_place))


def layout_of(path: Path) -> Layout:
    """The delimiter that cuts the first lines into equally many fields, the names if there are any, and the first row."""
    with reading(path, "CSV file"), _open(path) as file:
        lines = list(islice(file, _SAMPLE))
        delimiter = _delimiter(lines, complete=next(file, None) is None)
        reader = csv.reader(lines, delimiter=delimiter)
        row = next(filter(None, reader), None)
        names = None
        skipped = 0
        if row is not None and not any(map(is_number, row)):
            names, skipped = tuple(name.strip() for name in row), reader.line_num
            row = next(filter(None, reader), None)
    if row is None:
        seen = "is empty" if names is None else f"has the columns {list_names(names)} and no rows"
        raise ValueError(f"{path}: {seen}. Give a file with one line for each row.")
    if names is not None and len(row) != len(names):
        raise ValueError(
            f"{path}: has {len(names)} names in its first line, and {len(row)} fields in the next. Give each column a name."
        )
    refuse_duplicates(path, names or ())
    return Layout(delimiter, names, skipped, row)


def text_columns(path: Path) -> dict[str, str]:
    """The names or numbers of the columns, each with what its first field looks like."""
    layout = layout_of(path)
    names = layout.names or map(str, range(len(layout.row)))
    return {name: "number" if is_number(field) else "text" for name, field in zip(names, layout.row, strict=True)}


def _open(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _delimiter(lines: Sequence[str], complete: bool) -> str:
    widths: dict[str, list[int]] = {}
    for delimiter in "\t;,":
        lengths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        widths[delimiter] = (lengths if complete else lengths[:-1]) or lengths or [0]  # the last row may go on later
    for delimiter, lengths in widths.items():  # tabs and semicolons before the comma, which decimals may have
        if lengths[0] > 1 and len(set(lengths)) == 1:
            return delimiter
    return max(",;\t", key=lambda delimiter: widths[delimiter][0])


def is_number(text: str) -> bool:
    """Whether a field is one, finite or not."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # the digits that NumPy reads too


def _zero(text: str) -> int:
    return 0


def _to_target(path: Path, what: str, texts: list[str], codes: np.ndarray) -> np.ndarray:
    """The targets of texts: whole numbers or numbers if all texts are, else the texts. `codes` are the places of rows in it."""
    others = [text for text in texts if not is_number(text)]
    missing = [t for t in texts if t == ""] or ([] if set(map(str.lower, others)) - set(_MISSING) else others)
    missing += [] if others else [text for text in texts if not isfinite(float(text))]
    if missing:
        row = int(np.argmax(codes == texts.index(missing[0])))
        raise ValueError(
            f"{path}: the target, {what}, is missing in row {row} (counted from 0): {missing[0]!r}. Remove it."
        )
    if others:
        return np.array(texts)
    try:
        return np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        return np.array([float(text) for text in texts])


def _refuse_open_quotes(path: Path, layout: Layout) -> None:
    """NumPy lets a quote that is never closed swallow the rows after it."""
    seen = None
    with reading(path, "CSV file"), _open(path) as file:
        reader, start = csv.reader(file, delimiter=layout.delimiter, strict=True), 1
        try:
            for _ in reader:
                start = reader.line_num + 1
        except csv.Error as error:
            seen = error
    if seen is not None:
        raise ValueError(
            f"{path}: the row that begins in line {start} has quotes that do not fit ({seen}). Close each."
        )


def _what_is_wrong(path: Path, layout: Layout, features: list[int]) -> str | None:
    """Where the first row is that does not fit, and why."""
    count = len(layout.row)
    with reading(path, "CSV file"), _open(path) as file:
        reader = csv.reader(file, delimiter=layout.delimiter)
        rows = (row for row in reader if row)
        if layout.names is not None:
            next(rows)
        for i, row in enumerate(rows):
            where = f"{path}: line {reader.line_num}"
            if len(row) != count:
                return f"{where} has {len(row)} fields, where the first row has {count}. Give all rows as many."
            for place in features:
                wrong = _wrong_field(row[place])
                if wrong:
                    hint = ""
                    if i == 0 and layout.names is None:
                        hint = " (The first line was read as a row: one of names would hold no number.)"
                    return f"{where}, {label(layout.names, place)}: {wrong}{hint}"
    return None


def _wrong_field(text: str) -> str | None:
    if text.strip().lower() in _MISSING:
        return f"a value is missing ({text!r}). Fill it in, remove the row, or drop the column."
    if not is_number(text):
        return f"{text[:40]!r} is no number. Encode the column as numbers, drop it, or make it the target."
    return None if isfinite(float(text)) else f"{text!r} is not a finite number. Replace it, or remove the row."
