"""Read Parquet from outside: the columns of a spec, converted to its types.

Metadata that pandas or other programs have added is ignored, except the names of index columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from data.errors import InputError, shorten
from data.tables.problems import shorten_names

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Maximum number of columns in a message, and of characters of a value or a type.
SHOWN, LETTERS = 8, 40
#: Prefix of the columns that pandas creates for an index without name.
_INDEX = "__index_level_"


@dataclass(frozen=True)
class Kind:
    """A type of columns: its name in messages, the conversion to it, and whether values may be missing."""

    words: str
    cast: Callable[[pa.ChunkedArray], pa.ChunkedArray]
    gaps: bool = True


def read_columns(
    path: Path,
    dtypes: Mapping[str, str],
    other_dtype: Callable[[str], str] | None,
    blank: Collection[str],
    *,
    optional: Collection[str],
    unwanted: Collection[str],
) -> pd.DataFrame:
    """Return the columns of a Parquet file, converted, in the order of the file.

    `dtypes` has types by column, of which `optional` may be absent, also from the result; `unwanted` are
    ignored, as are index columns that pandas has written, unless in `dtypes`. Columns without a type from
    `other_dtype` are not converted, except times with a zone, to UTC. With missing values, a column of the
    type boolean has the type object. Otherwise see `Spec` and `Spec.read`.
    """
    with open_parquet(path) as file:
        schema, kinds = file.schema_arrow, dict[str, Kind]()
        _require_columns(schema.names, [name for name in dtypes if name not in optional], path)
        skipped = {*unwanted, *(_index_columns(schema) - dtypes.keys())}
        for field in schema:
            if field.name in skipped:
                continue
            if field.name in kinds:
                raise InputError(f'has the column "{field.name}" twice', file=path)
            dtype = dtypes.get(field.name) or (other_dtype and other_dtype(field.name))
            kind = KINDS[dtype] if dtype else _UNTYPED
            if _is_flat(field.type):
                kinds[field.name] = kind
            elif dtype or types.is_temporal(field.type):
                # a duration or a time of day may be a measurement, and must not vanish
                raise InputError(_other_type(field.name, field.type, kind), file=path)
        table = file.read(columns=list(kinds))
    converted = {name: _convert_column(table, name, kind, blank, path) for name, kind in kinds.items()}
    columns = {name: column for name, column in converted.items() if column is not None}
    if not columns:
        return pd.DataFrame(index=pd.RangeIndex(table.num_rows))
    frame = pa.table(columns).to_pandas(ignore_metadata=True)
    # whole numbers with gaps would become floats, which have 53 bits
    for name, column in columns.items():
        if dtypes.get(name) == "Int64":
            frame[name] = column.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Yield an open Parquet file; OSError, ValueError and Arrow errors in the block become an InputError."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (OSError, ValueError, pa.ArrowException) as exc:
        raise InputError(f"is not a readable Parquet file ({exc})", file=path) from exc


def read_written_table(path: Path, columns: list[str] | None = None, **options: Any) -> pd.DataFrame:
    """Return a Parquet file that perfjudge wrote; FileNotFoundError if missing, InputError if unreadable."""
    try:
        return pd.read_parquet(path, columns=columns, **options)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as exc:
        raise InputError(f"is not a readable Parquet file ({exc})", file=path) from exc


def _require_columns(names: list[str], needed: list[str], path: Path) -> None:
    missing = [name for name in needed if name not in names]
    if missing:
        present = shorten_names(names, SHOWN) or "none"
        raise InputError(f"has no column {missing[0]!r}; found {present}", file=path)


def _other_type(name: str, dtype: pa.DataType, kind: Kind) -> str:
    return f'the column "{name}" holds {shorten(str(dtype), LETTERS)}; expected {kind.words}'


def _index_columns(schema: pa.Schema) -> set[str]:
    """Return the columns that were a frame's index: they number its rows and are not data."""
    columns = {name for name in schema.names if name.startswith(_INDEX)}
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        described = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        columns |= {name for name in described if isinstance(name, str)}
    return columns


def _is_flat(dtype: pa.DataType) -> bool:
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    checks = (types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    return any(check(dtype) for check in (*checks, types.is_timestamp, types.is_date, _is_text))


def _is_text(dtype: pa.DataType) -> bool:
    text = (types.is_string, types.is_large_string, types.is_string_view)
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(check(dtype) for check in (*text, *binary))


def _convert_column(
    table: pa.Table, name: str, kind: Kind, blank: Collection[str], path: Path
) -> pa.ChunkedArray | None:
    column = table.column(name)
    try:
        converted = kind.cast(_decode_text(column, blank))
    except (pa.ArrowException, ValueError) as exc:
        if kind is _UNTYPED:
            return None
        if not len(column):
            raise InputError(_other_type(name, column.type, kind), file=path) from exc
        row = _first_wrong(column, lambda part: kind.cast(_decode_text(part, blank)))
        problem = f'{name}="{_shown_cell(column, row)}" is not {kind.words}'
        raise InputError(problem, file=path, place=f"row {row}") from exc
    if not kind.gaps and converted.null_count:
        row = pc.index(converted.is_null(), True).as_py()
        raise InputError(f"{name} is missing; expected {kind.words}", file=path, place=f"row {row}")
    return converted


def _decode_text(column: pa.ChunkedArray, blank: Collection[str]) -> pa.ChunkedArray:
    """Return text as valid UTF-8 with `blank` values missing, and dictionaries decoded."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_text(column.type):
        return column
    # a cast from text to text would not validate the bytes
    text = column.cast(pa.large_binary()).cast(pa.large_string())
    if not blank:
        return text
    return pc.if_else(pc.is_in(text, pa.array(blank, text.type)), pa.scalar(None, text.type), text)


def _first_wrong(column: pa.ChunkedArray, cast: Callable[[pa.ChunkedArray], Any]) -> int:
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, ValueError):
            high = middle
    return low


def _shown_cell(column: pa.ChunkedArray, row: int) -> str:
    cell = column.slice(row, 1)
    if types.is_dictionary(cell.type):
        cell = cell.cast(cell.type.value_type)
    try:
        value = cell.cast(pa.large_binary() if _is_text(cell.type) else pa.large_string())[0].as_py()
    except pa.ArrowException:
        return shorten(str(cell.type), LETTERS)
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return shorten(text, LETTERS)


def _in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    zoned = types.is_timestamp(column.type) and column.type.tz
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if zoned else column


def _to_number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # precision lost beyond 2**53 does not matter for measurements
    return _refuse_times(column).cast(options=pc.CastOptions(pa.float64(), allow_float_truncate=True))


def _to_whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return _without_nan(_refuse_times(column)).cast(pa.int64())


def _to_truth(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if types.is_boolean(column.type):
        return column
    numbers = _without_nan(_refuse_times(column)).cast(pa.int8())
    if pc.any(pc.not_equal(numbers, pc.not_equal(numbers, 0).cast(pa.int8()))).as_py():
        raise ValueError("neither 0 nor 1")
    return numbers.cast(pa.bool_())


def _to_time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if types.is_timestamp(column.type) and not column.type.tz and column.null_count < len(column):
        raise ValueError("has no time zone")
    return column.cast(options=pc.CastOptions(pa.timestamp("us", "UTC"), allow_time_truncate=True))


def _refuse_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Raise a ValueError for times, which would become microseconds."""
    if types.is_temporal(column.type) and column.null_count < len(column):
        raise ValueError("expected a number, not a time")
    return column.cast(pa.float64()) if types.is_float16(column.type) else column


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


_WHOLE, _TRUTH = "a whole number", "true or false"
#: Kinds by the types in specs of tables.
KINDS = {
    "str": Kind("text", lambda column: _without_nan(column).cast(pa.large_string())),
    "float64": Kind("a number", _to_number),
    "int64": Kind(_WHOLE, _to_whole, gaps=False),
    "Int64": Kind(_WHOLE, _to_whole),
    "bool": Kind(_TRUTH, _to_truth, gaps=False),
    "boolean": Kind(_TRUTH, _to_truth),
    "datetime64[us, UTC]": Kind("a time with a time zone", _to_time),
}
#: The kind of a column without a type in the spec.
_UNTYPED = Kind("a number, a text, a date or a timestamp", _in_utc)
