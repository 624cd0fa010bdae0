"""Results that are written from Conbench's documentation: Conbench is not there."""

import pytest

from tests.data.comparisons.formats.reading import run, written


def result(unit, data, **tags):
    about = {"run_id": "r", "timestamp": "2026-11-20T10:00:00Z", "tags": {"name": "join", **tags}}
    return about | {"stats": {"data": data, "unit": unit}}


@pytest.mark.parametrize(
    ("better", "units"),
    [
        ("higher", "B/s|b/s|i/s|items/sec|requests/second|requests per second|MB per minute|1/ms|Mbps|qps"),
        ("higher", "Requests/Second|OPS/SEC|Items Per Second|MB/S|1/MS|QPS|Rps|TPS"),
        ("lower", "s|ns|B|seconds|s/request|seconds per request|B/op|steps/run|items|Seconds|B/Op|OPS"),
    ],
)
def test_higher_is_better_for_amounts_per_time_only(better, units, tmp_path):
    for unit in units.split("|"):
        (key,) = run(written(tmp_path / "a.json", result(unit, [1.0, 2.0])), "conbench")
        assert (unit, key[-1]) == (unit, better)


def test_results_are_read_alone_and_in_lists_and_pages(tmp_path):
    rate = result("i/s", [1.0, None, "3.0"], cpu=2)
    failed = result("s", []) | {"stats": None, "error": {"trace": "..."}}
    page = {"data": [rate, failed], "metadata": {"next_page_cursor": None}}
    rates = {("conbench", "join[cpu=2]", "unknown", 1, "items/s", "higher"): [1, 3]}
    # what is no rate is better if it is lower
    times = {("conbench", "join", "unknown", 1, "s", "lower"): [2]}
    for content, found, has_failed in (
        (rate, rates, False),
        ([rate, failed, result("s", [2.0])], rates | times, True),
        (page, rates, True),
    ):
        path, notes = written(tmp_path / "a.json", content), []
        assert run(path, "conbench", notes) == found
        assert notes == [f"{path}: results[1] (join) is left out: it has no values"] * has_failed
