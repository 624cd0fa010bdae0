"""Files that hyperfine itself writes here; of version 2, one that is written from its source."""

import json

from data.comparisons.formats import results_of_run
from tests.data.comparisons.formats.reading import needs, ran, run, written


@needs("hyperfine")
def test_times_of_a_real_run_are_read_with_parameters(tmp_path):
    out = tmp_path / "a.json"
    ran("hyperfine", "-N", "-r", "4", "-L", "n", "1,2", "sleep 0.00{n}", "--export-json", out)
    times = [one["times"] for one in json.loads(out.read_text())["results"]]
    key = ("unknown", 1, "s", "lower")
    assert run(out, "hyperfine") == {
        ("hyperfine", f"sleep 0.00{n}[n={n}]", *key): times[n - 1] for n in (1, 2)
    }


def test_version_2_has_its_chief_metric_in_every_measurement(tmp_path):
    measurements = [
        {
            "time_wall_clock": {"value": value, "unit": "second"},
            "memory_peak_resident": {"value": 9, "unit": "byte"},
            "exit_code": 0,
        }
        for value in (0.25, 0.5)
    ]
    summary = {
        "time_wall_clock": {
            "unit": "second",
            "count": 2,
            "mean": 0.375,
            "stddev": 0.2,
            "median": 0.375,
            "min": 0.25,
            "max": 0.5,
        }
    }
    result = {"command": "make", "name": "build", "summary": summary, "measurements": measurements}
    content = {"schema_version": 2, "metadata": {}, "results": [result]}
    wall = written(tmp_path / "wall.json", content)
    assert run(wall, "hyperfine") == {("hyperfine", "build", "unknown", 1, "s", "lower"): [0.25, 0.5]}
    memory = written(tmp_path / "memory.json", content | {"primary_metric": "memory_peak_resident"})
    assert run(memory) == {("hyperfine", "build", "unknown", 1, "B", "lower"): [9, 9]}


def test_a_file_without_times_holds_summaries(tmp_path):
    """As versions before 1.9 wrote it, with one parameter."""
    one = {
        "command": "ls",
        "mean": 2.0,
        "stddev": None,
        "median": 2.0,
        "min": 1.0,
        "max": 3.0,
        "parameter": "7",
    }
    path, notes = written(tmp_path / "a.json", {"results": [one]}), []
    assert list(run(path, "hyperfine", notes)) == [
        ("hyperfine", "ls[parameter=7]", "unknown", 1, "s", "lower")
    ]
    assert sorted(results_of_run(path)["stat"]) == ["max", "mean", "median", "min"]
    assert notes == [f"{path} holds summaries only, without the repetitions behind them"]
