"""Parquet as other programs write it: every column of its type, or one line with column, row and value."""

import datetime as dt
import json
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.comparisons.tables import ComparisonTables
from data.corun.tables import CorunTables
from data.errors import InputError
from data.matrices.tables import MatrixTables
from data.tables.parquet import read_written_table
from data.tables.specs import Spec, read_table
from tests.data.corun import rows as corun_rows
from tests.data.matrices import rows as matrix_rows
from tests.data.refusals import refusal

DTYPES = {"name": "str", "count": "int64", "share": "float64", "judged": "boolean"}
DTYPES |= {"cores": "Int64", "at": "datetime64[us, UTC]"}
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
GOOD = {
    "name": pa.array(["a", "b"]),
    "count": pa.array([1, 2]),
    "share": pa.array([0.5, None]),
    "judged": pa.array([True, None]),
    "cores": pa.array([4, None]),
    "at": pa.array([NOON, None], pa.timestamp("us", "UTC")),
}


def not_utf8(kind=pa.string()):  # noqa: B008 - a type never changes
    """Make a column of text whose second value is not UTF-8."""
    return pa.array([b"a", b"b\xff"]).cast(pa.binary()).view(kind)


def written(tmp_path, metadata=None, **columns):
    table = pa.table(GOOD | columns).replace_schema_metadata(metadata)
    pq.write_table(table, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def read(path, optional=()):
    return Spec(DTYPES, optional).read(path)


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        ("name", pa.array([b"a", b"b"]), ["a", "b"]),
        ("name", pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        ("name", pa.array([1, None]), ["1", None]),
        ("name", pa.nulls(2, pa.float64()), [None, None]),
        ("name", pa.array([np.nan, np.nan]), [None, None]),
        ("count", pa.array([1, 2], pa.uint8()).dictionary_encode(), [1, 2]),
        ("count", pa.array([Decimal("1.00"), Decimal("2.00")]), [1, 2]),
        ("count", pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
        ("share", pa.array([2**64 - 1, 1], pa.uint64()), [2.0**64, 1.0]),
        ("share", pa.array([Decimal("1.25"), None]), [1.25, None]),
        ("share", pa.array([0.5, 1.5], pa.float16()), [0.5, 1.5]),
        ("share", pa.nulls(2), [None, None]),
        ("judged", pa.array([1.0, np.nan]), [True, None]),
        ("judged", pa.nulls(2), [None, None]),
        ("cores", pa.array([4.0, np.nan]), [4, None]),
        ("cores", pa.array([2**63 - 1, None]), [2**63 - 1, None]),
        ("at", pa.array([NOON, NOON], pa.timestamp("ns", "Europe/Berlin")), [NOON, NOON]),
        ("at", pa.array([NOON, None], pa.timestamp("s", "UTC")), [NOON, None]),
    ],
)
def test_variants_of_a_type_are_read_as_the_type(tmp_path, column, given, expected):
    table = read(written(tmp_path, **{column: given}))
    assert table.dtypes.astype(str).to_dict() == DTYPES
    assert table[column].astype(object).where(table[column].notna(), None).tolist() == expected


@pytest.mark.parametrize(
    ("column", "given", "told"),
    [
        ("name", not_utf8(), r't.parquet row 1: name="b\xff" is not text'),
        ("name", not_utf8(pa.binary()), r't.parquet row 1: name="b\xff" is not text'),
        ("name", pa.array([["a"], ["b"]]), 'the column "name" holds list<'),
        ("count", pa.array([{"a": 1}] * 2), 'the column "count" holds struct<'),
        ("count", pa.array([1, None]), "t.parquet row 1: count is missing; expected a whole number"),
        ("count", pa.array([1.0, 1.5]), 'row 1: count="1.5" is not a whole number'),
        ("count", pa.array([1, 2**63], pa.uint64()), 'row 1: count="9223372036854775808" is not a whole'),
        ("count", pa.array(["1", "many"]), 'row 1: count="many" is not a whole number'),
        ("count", pa.nulls(2), "row 0: count is missing; expected a whole number"),
        ("share", pa.array([1, 2], pa.duration("s")), 'holds duration[s]; expected a num'),
        ("share", pa.array([NOON, NOON]), 'row 0: share="2026-01-02'),
        ("judged", pa.array([1, 2]), 'row 1: judged="2" is not true or false'),
        ("at", pa.array([dt.datetime(2026, 1, 2)] * 2), 'row 0: at="2026-01-02'),  # noqa: DTZ001 - none
        ("at", pa.array([0, 2**62], pa.timestamp("ms", "UTC")), "row 1: at="),
    ],
)  # fmt: skip
def test_columns_of_a_wrong_type_are_refused_in_one_line(tmp_path, column, given, told):
    line = refusal(read, written(tmp_path, **{column: given}))
    assert told in line
    assert len(line) < 200 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("values", "kind", "told"),
    [
        (pa.array([], pa.date32()), "bool", ': the column "n" holds date32[day]; expected true or'),
        (["1"] * 3456 + ["x"] + ["2"] * 500 + ["x"], "float64", ' row 3456: n="x" is not a number'),
    ],
    ids=["an empty column", "the first of many rows"],
)
def test_a_wrong_column_is_named_with_its_first_row(tmp_path, values, kind, told):
    pq.write_table(pa.table({"n": values}), tmp_path / "t.parquet", row_group_size=700)
    assert f"t.parquet{told}" in refusal(read_table, tmp_path / "t.parquet", {"n": kind})


def test_pandas_metadata_about_columns_is_ignored(tmp_path):
    columns = [{"name": "count", "pandas_type": "object", "numpy_type": "x"}]
    described = {"index_columns": [], "columns": columns}, {"index_columns": [["x"], {"kind": 3}, "y"]}
    for noted in (*map(json.dumps, described), "no json", "[", "[1]", "{}", b"\xff", "[" * 100_000):
        table = read(written(tmp_path, {"pandas": noted}))
        assert table["count"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "indexed",
    [
        lambda runs: runs.set_index("run_id"),
        lambda runs: runs.assign(m=1.0).set_index(["run_id", "m"]),
        lambda runs: runs.set_index(pd.Index(np.arange(len(runs)) * 3.0)),
        lambda runs: runs.set_index(pd.Index(np.arange(len(runs)) * 3.0, name="number")),
    ],
)
def test_a_pandas_index_is_read_only_as_a_known_column(tmp_path, indexed):
    expected = matrix_rows.small().runs
    indexed(expected).to_parquet(tmp_path / "runs.parquet")
    pd.testing.assert_frame_equal(MatrixTables.read(tmp_path / "runs.parquet").runs, expected)


def test_a_repeated_column_of_a_table_is_refused(tmp_path):
    table = pa.Table.from_arrays([*GOOD.values(), pa.array([3, 4])], [*GOOD, "count"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert refusal(read, tmp_path / "t.parquet").endswith('t.parquet: has the column "count" twice')


def test_extra_columns_of_nested_values_are_left_out(tmp_path):
    further = {
        "plain": pa.array([1.5, 2.5]), "codes": pa.array(["x", "y"]).dictionary_encode(),
        "nested": pa.array([[1], [2]]), "bad": not_utf8(),
        "map": pa.array([[("a", 1)]] * 2, pa.map_("str", "i8")),
        "when": pa.array([NOON, NOON], pa.timestamp("us", "Mars/Base")),
    }  # fmt: skip
    table = read(written(tmp_path, **further))
    assert table.columns.drop(list(DTYPES)).tolist() == ["plain", "codes", "when"]
    assert table["codes"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pa.array([1, 2], pa.duration("ns")), "duration[ns]"),
        (pa.array([dt.time(1), dt.time(2)]), "time64[us]"),
        (pa.array([1, None], pa.time32("ms")), "time32[ms]"),
    ],
)
def test_extra_columns_of_durations_are_refused_and_never_dropped(tmp_path, given, kind):
    told = f'the column "took" holds {kind}; expected a number, a text, a date or a timestamp'
    assert refusal(read, written(tmp_path, took=given)).endswith(f"t.parquet: {told}")


@pytest.mark.parametrize(
    ("strange", "told"),
    [
        (lambda rows: pa.array([[1]] * rows), 'the column "odd" holds list<'),
        (lambda rows: pa.array([b"\xff"] * rows).view(pa.string()), r'row 0: odd="\xff" is not a number'),
        (lambda rows: pa.array([NOON] * rows), 'row 0: odd="2026-01-02'),
    ],
)
def test_extra_columns_of_measurements_must_be_numeric(tmp_path, strange, told):
    corun_rows.small().write(tmp_path)
    matrix_rows.small().write(tmp_path)
    for name, reads in (("tasks", CorunTables.read), ("matrices", MatrixTables.read)):
        path = tmp_path / f"{name}.parquet"
        table = pq.read_table(path)
        pq.write_table(table.append_column("odd", strange(len(table))), path)
        with pytest.raises(InputError, match=rf"{name}\.parquet.*{re.escape(told)}"):
            reads(tmp_path)


def test_a_directory_that_looks_like_a_partition_adds_no_column(tmp_path):
    directory = tmp_path / "version=9"
    ComparisonTables.from_rows([], [], []).write(directory)
    assert "version" not in ComparisonTables.read(directory).comparisons.columns


@given(kept=st.floats(0, 1, exclude_max=True))
def test_a_cut_file_of_a_stage_is_refused_by_name(tmp_path_factory, kept):
    path = tmp_path_factory.mktemp("stage") / "oof.parquet"
    pd.DataFrame({"case": ["a", "b"], "value": [1.0, 2.0]}).to_parquet(path)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(InputError, match=r"oof\.parquet: is not a readable Parquet file"):
        read_written_table(path)
