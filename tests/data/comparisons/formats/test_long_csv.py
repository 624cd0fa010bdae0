"""Plain tables, as everybody can write them."""

import pytest

from data.comparisons import formats
from tests.data.comparisons.formats.reading import compared, refusal, run, written


def test_omitted_columns_of_long_csv_get_defaults(tmp_path):
    path, notes = written(tmp_path / "a.csv", "operation;value;threads\njoin;5;2\njoin;6;2\nsplit;7;\n"), []
    assert run(path, "long-csv", notes) == {
        ("long-csv", "join", "unknown", 2, "unknown", "higher"): [5, 6],
        ("long-csv", "split", "unknown", 1, "unknown", "higher"): [7],
    }
    assert notes == [
        f"{path} does not say which values are better; higher is assumed (--better says otherwise)"
    ]


@pytest.mark.parametrize("month", ["2026-11-", "2026.11.", "202611"])
def test_versions_are_ordered_by_appearance_or_time(tmp_path, month):
    old = f"join,lower,old,{month}20,5\njoin,lower,old,2026-11-20,6\n"
    rows = "{}" + old + f"join,lower,new,{month}{{}},7\njoin,lower,new,{month}{{}},8\n"
    header = "operation,better,version,measured_at,value\n"
    for day, target in ((21, "new"), (19, "old")):
        path = written(tmp_path / f"{target}.csv", rows.format(header, day, day))
        assert compared(path) == [[f"{target}/long-csv/join", 0, 1]]


@pytest.mark.parametrize("time", ["2026-9-30", "yesterday", "30.09.2026"])
@pytest.mark.parametrize(
    ("header", "row"),
    [("time,commit,ms", "{0},{1},5"), ("operation,better,version,measured_at,value", "join,lower,{1},{0},5")],
)
def test_a_note_names_a_time_that_cannot_be_read(tmp_path, header, row, time):
    rows = [row.format(day, version) for version, day in (("new", "2026-10-01"), ("old", time))]
    path = written(tmp_path / "a.csv", "\n".join([header, *rows, *rows]))
    reading = formats.read_tables(formats.recognise_format(path), [path])
    assert reading.tables.comparisons["comparison_id"].tolist()[0].startswith("old/")
    problem = f'{path} has the time "{time}", which is not of ISO 8601'
    assert f"{problem}; its versions are in the order of their rows" in reading.notes


def test_units_of_versions_are_converted_to_the_first(tmp_path):
    first = written(tmp_path / "1.csv", "operation,better,unit,value\njoin,lower,ms,500\njoin,lower,ms,600\n")
    second = written(tmp_path / "2.csv", "operation,better,unit,value\njoin,lower,s,0.5\njoin,lower,s,0.75\n")
    results = formats.read_tables("long-csv", [first, second]).tables.results
    assert (results["value"].tolist(), set(results["unit"])) == ([500, 600, 500, 750], {"ms"})


@pytest.mark.parametrize("directions", [("lower", "higher"), ("higher", "lower")])
@pytest.mark.parametrize("versions", ["11", "12"])
@pytest.mark.parametrize("threads", ["11", "12"])
def test_opposite_directions_within_one_table_are_refused(tmp_path, directions, versions, threads):
    rows = "".join(f"join,{','.join(row)},5\n" for row in zip(directions, versions, threads, strict=True))
    told = refusal(written(tmp_path / "a.csv", f"operation,better,version,threads,value\n{rows}"))
    assert told == f'a.csv operation "join": better="{directions[1]}" is not "{directions[0]}" as in a.csv'


@pytest.mark.parametrize("directions", [("", "lower"), ("lower", "")])
def test_an_empty_direction_is_that_of_other_rows(tmp_path, directions):
    rows = "".join(f"{name},{better},5\n" for name in ("join", "split") for better in directions)
    notes = []
    found = run(written(tmp_path / "a.csv", f"operation,better,value\n{rows}read,higher,5\n"), None, notes)
    assert [(key[1], key[5]) for key in found] == [("join", "lower"), ("split", "lower"), ("read", "higher")]
    assert not notes


@pytest.mark.parametrize("others", [[], ["size"], ["size", "value 2"], [*"abcdef"]])
def test_a_note_names_columns_that_are_ignored(tmp_path, others):
    header = ",".join([*others, "operation", "better", "value"])
    rows = "".join(",".join([*(f"x{row}" for _ in others), "join", "lower", "5\n"]) for row in range(3))
    path, notes = written(tmp_path / "a.csv", f"{header}\n{rows}"), []
    assert [*run(path, "long-csv", notes).values()] == [[5, 5, 5]]
    listed = "a, b, c, d and 2 more" if len(others) > 4 else ", ".join(others)
    assert notes == ([f"{path}: columns with unknown names are ignored: {listed}"] if others else [])


TWICE = ("value", "operation", "unit", "version")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("operation,value\njoin,fast\n", '2: value="fast" is not a finite number'),
        ("operation,value,threads\njoin,1,0\n", '2: threads="0" is not a whole number from 1'),
        ("operation,value,better\njoin,1,smaller\n", '2: better="smaller" is not lower or higher'),
        ("operation,value\n ,1\n", "2: names no operation"),
        ('operation,value,x\n\na,1,"b\nc"\n\na,x,\n', '6: value="x" is not a finite number'),
        ("operation,value,thread\njoin,1,2\n", '1: column "thread" is unknown; did you mean "threads"?'),
        *((f"operation,unit,version,value,{name}\n", f'1: has the column "{name}" twice') for name in TWICE),
    ],
)
def test_errors_of_long_csv_name_the_line(tmp_path, text, told):
    assert refusal(written(tmp_path / "a.csv", text)) == f"a.csv:{told}"
