"""Runs in JSON of our own."""

import re

import pytest

from data.comparisons.formats.tools import run_json
from data.comparisons.formats.tools.measurement import Measure, SourceFiles
from data.tables.problems import Problems
from tests.data.comparisons.formats.reading import refusal, run, written
from tests.data.refusals import refusal as refused

RESULT = {"benchmark": "words", "operation": "join", "better": "lower"}


def test_the_number_of_threads_is_optional(tmp_path):
    path = written(tmp_path / "a.json", {"results": [RESULT | {"configurations": [{"samples": [1.0, 2]}]}]})
    assert run(path, "run-json") == {("words", "join", "unknown", 1, "unknown", "lower"): [1, 2]}


def test_a_wrong_value_is_named_with_its_place(tmp_path):
    result = RESULT | {"configurations": [{"threads": 0, "samples": [1.0]}]}
    told = "a.json: results[0].configurations[0].threads=0 is not a number of at least 1"
    assert refusal(written(tmp_path / "a.json", {"results": [result]})).startswith(told)


def test_opposite_directions_within_one_run_are_refused(tmp_path):
    both = [RESULT | {"better": one, "configurations": [{"samples": [1.0]}]} for one in ("higher", "lower")]
    told = refusal(written(tmp_path / "a.json", {"results": both}))
    assert told == 'a.json operation "join": better="lower" is not "higher" as in a.json'


@pytest.mark.parametrize("name", ["benchmark", "operation", "machine", "unit"])
def test_half_a_surrogate_pair_is_refused_with_its_place(name, tmp_path):
    result = RESULT | {"configurations": [{"samples": [1.0, 2]}], name: "a\ud800"}
    path = written(tmp_path / "a.json", {"results": [result]})
    told = refused(list, run_json.read_run_json.read(SourceFiles(path, [path], Problems(), Measure())))
    assert re.search(rf"results\[0\]\.{name}=.*half a surrogate pair", told)
