"""Text that is written from Go's documentation: Go is not there."""

import pytest

from data.comparisons import formats
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
    path, notes = written(tmp_path / "a.txt", TEXT), []
    key = ("example.org/words", "unknown")
    assert {
        (one[0], one[2], *one[1:2], *one[3:]): values for one, values in run(path, "go-bench", notes).items()
    } == {
        (*key, "Join/n=8", 4, "ns/op", "lower"): [1234, 1250],
        (*key, "Join/n=8 B/op", 4, "B/op", "lower"): [96, 96],
        (*key, "Read", 1, "ns/op", "lower"): [5.5e6],
        (*key, "Read MB/s", 1, "MB/s", "higher"): [190.51],
        (*key, "Read bytes/word", 1, "bytes/word", "lower"): [3.5],
    }
    assert notes == ["0 throughout, and left out: Join/n=8 allocs/op"]


def test_a_non_numeric_value_is_named_with_its_line(tmp_path):
    path = written(tmp_path / "a.txt", "BenchmarkA 10 many ns/op\n")
    assert refusal(path) == 'a.txt:1: ns/op "many" is not a number'


@pytest.mark.parametrize("tool", ["go-bench", "asv"])
def test_keep_going_skips_a_directory_without_files_of_measurements(tmp_path, tool):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="empty: holds no "):
        formats.read_tables(tool, [empty])
    path = written(tmp_path / "a.txt", TEXT)
    reading = formats.read_tables(tool, [empty, path], keep_going=True)
    assert str(reading.skipped[0]).startswith(f"{empty}: holds no ")


def test_keep_going_reads_the_directories_beside_an_empty_one(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("before", "after"):
        written(tmp_path / name / "a.txt", TEXT)
    paths = [tmp_path / name for name in ("before", "empty", "after")]
    reading = formats.read_tables("go-bench", paths, keep_going=True)
    assert "empty: holds no file of measurements" in str(reading.skipped[0])
    assert len(reading.tables.comparisons) == 5
