"""Tables as Parquet, read a batch of rows at a time."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..numerics.extras import needs_extra
from ..storage.files import reading
from .columns import Column, Table, refuse_duplicates, refuse_non_finite, split

_ROWS = 2**16  # at a time


def read_parquet(path: Path, target: Column | None, drop: Sequence[Column]) -> Table:
    """The table in a Parquet file."""
    with needs_extra():
        import pyarrow as pa
        import pyarrow.parquet as pq
    schema, rows = _schema(path)
    features, target_place = split(path, list(schema), len(schema), target, drop)
    names = [list(schema)[i] for i in features]
    target_name = None if target_place is None else list(schema)[target_place]
    for name in names:
        if not _is_number(schema[name]):
            raise ValueError(
                f"{path}: column {name!r} is of type {schema[name]}, not of numbers. Encode it, drop it, or make it the target."
            )
    if rows == 0:
        raise ValueError(f"{path}: has {len(schema)} columns and no rows. Give a file with rows.")
    missing = None
    done, parts = 0, []
    with reading(path, "Parquet file"), pq.ParquetFile(path) as file:
        x = np.empty((rows, len(names)))
        columns = names if target_name is None else [*names, target_name]
        for batch in file.iter_batches(_ROWS, columns=columns):
            nulls = next((name for name in columns if batch.column(name).null_count), None)
            if nulls is not None:
                missing = nulls, done + batch.column(nulls).is_null().to_pylist().index(True)
                break
            for j, name in enumerate(names):
                x[done : done + len(batch), j] = _numbers(batch.column(name))
            if target_name is not None:
                parts.append(batch.column(target_name))
            done += len(batch)
    if missing is not None:
        raise ValueError(
            f"{path}: column {missing[0]!r} has no value in row {missing[1]} (counted from 0). Fill it in, remove the row, or "
            "drop the column."
        )
    if done != rows:
        raise ValueError(f"{path}: says it has {rows} rows, and has {done}. Write it anew.")
    for j, name in enumerate(names):
        refuse_non_finite(path, f"column {name!r}", x[:, j])
    y = None
    if target_name is not None:
        y = _to_target(path, target_name, pa.chunked_array(parts))
    return Table(x, y, tuple(names), target_name)


def parquet_columns(path: Path) -> dict[str, str]:
    """The names of the columns, each with its type and length."""
    schema, rows = _schema(path)
    return {name: f"{kind} ({rows},)" for name, kind in schema.items()}


def _schema(path: Path) -> tuple[dict[str, Any], int]:
    """The types of the columns, without those that pandas keeps its index in, and the number of rows."""
    with needs_extra():
        import pyarrow.parquet as pq
    with reading(path, "Parquet file"), pq.ParquetFile(path) as file:
        fields = [field for field in file.schema_arrow if not re.fullmatch(r"__index_level_\d+__", field.name)]
        rows = file.metadata.num_rows
    refuse_duplicates(path, [field.name for field in fields])
    return {field.name: field.type for field in fields}, rows


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def _numbers(column: Any) -> np.ndarray:
    from pyarrow import types

    if types.is_decimal(column.type):
        column = column.cast("float64")
    return column.to_numpy(zero_copy_only=False)


def _to_target(path: Path, name: str, column: Any) -> np.ndarray:
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_number(column.type):
        y = np.asarray(column.cast("float64") if types.is_decimal(column.type) else column)
        refuse_non_finite(path, f"the target {name!r}", y)
        return y
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=str)
    raise ValueError(f"{path}: the target {name!r} is of type {column.type}, neither numbers nor text. Convert it.")
