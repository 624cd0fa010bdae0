"""A summary that a file lacks is no loss where the samples behind it are there."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.comparisons.formats import results_of_run
from tests.data.comparisons.formats.reading import SAMPLES, refusal, run, series, written

#: By format, the numbers that sum up samples in the same file.
SUMMARIES = {
    "pytest-benchmark": (
        *("min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers"),
        *("stddev_outliers", "outliers", "ld15iqr", "hd15iqr", "ops", "total", "iterations"),
    ),
    "hyperfine": ("mean", "stddev", "median", "user", "system", "min", "max", "exit_codes"),
    "jmh": ("score", "scoreError", "scoreConfidence", "scorePercentiles"),
    "perfherder": ("value",),
}
some_summaries = st.sampled_from(sorted(SUMMARIES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.sets(st.sampled_from(SUMMARIES[kind]), min_size=1))
)


def without(content, keys, as_null):
    if isinstance(content, list):
        return [without(one, keys, as_null) for one in content]
    if not isinstance(content, dict):
        return content
    gone = keys & content.keys() if content.keys() & {"data", "times", "rawData", "replicates"} else set()
    kept = {key: without(value, keys, as_null) for key, value in content.items() if key not in gone}
    return kept | dict.fromkeys(gone) if as_null else kept


@given(some_summaries, st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_samples_are_read_despite_any_missing_summaries(tmp_path, chosen, as_null):
    kind, keys = chosen
    nullable = as_null and kind != "jmh" and not keys & {"rounds", "exit_codes"}
    path = SAMPLES / kind / "base.json"
    content = without(json.loads(path.read_text()), keys, nullable)
    assert run(written(tmp_path / "a.json", content), kind, notes := []) == run(path)
    assert notes == []


def test_asv_samples_count_where_their_median_is_missing(tmp_path):
    columns = {"result_columns": ["result", "params", "samples"], "commit_hash": "f" * 40}
    content = columns | {"results": {"time_it": [[None, None], [["1", "2"]], [[1.0, 2.0], None]]}}
    results = results_of_run(written(tmp_path / "a.json", content))
    assert list(series(results).values()) == [[1.0, 2.0]]


@pytest.mark.parametrize("kind", ["pytest-benchmark", "hyperfine", "perfherder"])
def test_neither_samples_nor_summary_is_refused_in_one_line(tmp_path, kind):
    content = json.loads((SAMPLES / kind / "base.json").read_text())
    bare = without(content, {*SUMMARIES[kind], "data", "times", "replicates"}, as_null=False)
    for one in bare["results"] if kind == "hyperfine" else ():
        one["mean"] = None
    problem = "holds no measurement" if kind == "perfherder" else "holds no value"
    assert problem in refusal(written(tmp_path / "a.json", bare))
