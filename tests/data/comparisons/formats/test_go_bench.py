"""Text that is written from Go's documentation: Go is not there."""

import pytest

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.comparisons.params import Measure
from data.errors import InputError
from tests.data.comparisons.formats.reading import refusal, run, written

TEXT = """goos: linux
pkg: example.org/words
Unit bytes/word better=lower
BenchmarkJoin/n=8-4   	 1000	 1234 ns/op	 96 B/op	 0 allocs/op
BenchmarkJoin/n=8-4   	 1000	 1250 ns/op	 96 B/op	 0 allocs/op
BenchmarkRead         	  200	 5.5e+06 ns/op	 190.51 MB/s	 3.5 bytes/word
PASS
ok  	example.org/words	2.1s
"""


def test_every_line_is_a_sample_of_each_of_its_units(tmp_path):
    package, notes = "example.org/words", []
    assert run(written(tmp_path / "a.txt", TEXT), "go-bench", notes) == {
        (package, "Join/n=8", "unknown", 4, "ns/op", "lower"): [1234, 1250],
        (package, "Join/n=8 B/op", "unknown", 4, "B/op", "lower"): [96, 96],
        (package, "Join/n=8 allocs/op", "unknown", 4, "allocs/op", "lower"): [0, 0],
        (package, "Read", "unknown", 1, "ns/op", "lower"): [5.5e6],
        (package, "Read MB/s", "unknown", 1, "MB/s", "higher"): [190.51],
        (package, "Read bytes/word", "unknown", 1, "bytes/word", "lower"): [3.5],
    }
    assert not notes


@pytest.mark.parametrize("unit", ["req/s", "req/sec", "req/second", "MB/min", "req/ms"])
def test_rates_are_better_if_higher_whatever_the_user_says(unit, tmp_path):
    path = written(tmp_path / "a.txt", f"BenchmarkA 10 5 {unit}\n")
    assert results_of_run(path, measure=Measure(better="lower"))["better"].tolist() == ["higher"]


def test_a_note_names_the_units_whose_direction_is_assumed(tmp_path):
    metrics = "5 ns/op 99.5 p99-ns 2 p50-ms 3 max-\N{MICRO SIGN}s 7 hits 1 req-s 4 first-min"
    path, notes = written(tmp_path / "a.txt", f"BenchmarkA 10 {metrics}\n" * 2), []
    better = {unit: better for *_, unit, better in run(path, "go-bench", notes)}
    assumed = dict.fromkeys(("hits", "req-s", "first-min"), "higher")
    assert better == dict.fromkeys(better, "lower") | assumed
    told = "does not say which values are better; higher is assumed"
    assert notes == [f"{path} {told} (for hits, req-s, first-min; --better says otherwise)"]


@pytest.mark.parametrize(("number", "threads"), [("8", 8), ("999999", 999_999), ("1000000", 1), ("0", 1)])
def test_a_number_that_cannot_be_one_of_processors_belongs_to_the_name(tmp_path, number, threads):
    path = written(tmp_path / "a.txt", f"BenchmarkSort-{number} 10 5 ns/op\n")
    name = "Sort" if threads > 1 else f"Sort-{number}"
    assert run(path) == {("go-bench", name, "unknown", threads, "ns/op", "lower"): [5]}


@pytest.mark.parametrize("other", ["0", "3"])
def test_metrics_are_left_out_only_if_all_versions_are_zero(tmp_path, other):
    texts = TEXT, TEXT.replace("\t 0 allocs", f"\t {other} allocs")
    paths = [written(tmp_path / f"{at}.txt", text) for at, text in enumerate(texts)]
    reading = formats.read_tables("go-bench", paths, keep_going=True)
    left_out = "Join/n=8 allocs/op" not in set(reading.tables.comparisons["operation"])
    assert left_out == (other == "0")
    assert reading.notes == (("0 throughout, and left out: Join/n=8 allocs/op",) if left_out else ())


def test_a_non_numeric_value_is_named_with_its_line(tmp_path):
    path = written(tmp_path / "a.txt", "BenchmarkA 10 many ns/op\n")
    assert refusal(path) == 'a.txt:1: ns/op "many" is not a number'


@pytest.mark.parametrize("tool", ["go-bench", "asv"])
def test_keep_going_skips_a_directory_without_files_of_measurements(tmp_path, tool):
    paths = [written(tmp_path / name / "a.txt", TEXT).parent for name in ("before", "empty", "after")]
    (paths[1] / "a.txt").unlink()
    with pytest.raises(InputError, match="empty: holds no "):
        formats.read_tables(tool, [paths[1]])
    reading = formats.read_tables(tool, paths, keep_going=True)
    assert any(str(error).startswith(f"{paths[1]}: holds no ") for error in reading.skipped)
    assert len(reading.tables.comparisons) == (5 if tool == "go-bench" else 0)
