"""Tables that are written from the documentation of Apache Otava, which is not there."""

import shutil

import pytest

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.comparisons.params import Measure
from data.tables.problems import Problems
from tests.data.comparisons.formats.reading import SAMPLES, refusal, run, series, written

TABLE = "time,commit,branch,join,host\n2026-11-20 10:00,a,main,5,x\n2026-11-20 11:00,a,main,6,y\n"


def test_the_neighbouring_configuration_gives_the_better_direction():
    tables = formats.read_tables("otava-csv", [SAMPLES / "otava-csv/words.csv"]).tables
    directions = tables.results.groupby("operation")["better"].first()
    assert dict(directions) == {"join": "lower", "throughput": "higher"}
    assert tables.comparisons["comparison_id"].tolist()[0] == "c01/words/join"
    assert (tables.results.groupby(["operation", "version"]).size() == 3).all()


def test_without_configuration_the_direction_is_given_or_assumed(tmp_path):
    path, notes = written(tmp_path / "a.csv", TABLE), []
    key = ("otava-csv", "join", "unknown", 1, "unknown")
    assert run(path, "otava-csv", notes) == {(*key, "higher"): [5, 6]}
    assert notes == [
        f"{path} does not say which values are better; higher is assumed (--better says otherwise)"
    ]
    assert series(results_of_run(path, Problems(), Measure(better="lower"))) == {(*key, "lower"): [5, 6]}


def test_a_file_of_several_branches_is_refused(tmp_path):
    path = written(tmp_path / "a.csv", TABLE + "2026-11-20 12:00,b,side,7,x\n")
    assert refusal(path) == "a.csv: holds several branches (main, side); expected one"


@pytest.mark.parametrize("cell", ["n/a", "NaN", "inf", "5 ms"])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_column_of_numbers_and_other_text_is_refused(tmp_path, cell, row):
    cells = ["5", "", "6"]
    cells.insert(row, cell)
    rows = "".join(f"2026-11-20 1{hour}:00,a,{hour},x,{value}\n" for hour, value in enumerate(cells))
    path = written(tmp_path / "a.csv", f"time,commit,version,host,join\n{rows}")
    assert refusal(path, "otava-csv") == f'a.csv:{row + 2}: join="{cell}" is not a number'
    path.write_text(path.read_text().replace(f",{cell}\n", ",\n"))
    assert [key[1] for key in run(path)] == ["join"]


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("{", "otava.yaml: is not YAML ("),
        ("{metrics: [gone]}", 'words.csv:1: has no column "gone" of its metric'),
        ("{metrics: 5}", 'otava.yaml: metrics of test "w" are not a mapping'),
        ("{metrics: {t: {direction: [1]}}}", 'words.csv: direction=[1] of metric "t" is not 1 or -1'),
        (
            "{csv_options: {quote_char: '<>'}}",
            "otava.yaml: quote_char of test \"w\" is '<>'; expected one character",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(tmp_path, test, told):
    path = shutil.copy(SAMPLES / "otava-csv/words.csv", tmp_path / "words.csv")
    written(tmp_path / "otava.yaml", f"tests: {{w: {test.replace('{', '{file: words.csv, ', 1)}}}")
    assert refusal(path).startswith(told)
