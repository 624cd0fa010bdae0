"""Files that hyperfine itself writes here; of version 2, one that is written from its source."""

import json

import pytest

from data.comparisons.units import scale_to
from tests.data.comparisons.formats.reading import expect_summaries, needs, ran, refusal, run, written


@needs("hyperfine")
def test_times_of_a_real_run_are_read_with_parameters(tmp_path):
    out = tmp_path / "a.json"
    ran("hyperfine", "-N", "-r", "4", "-L", "n", "1,2", "sleep 0.00{n}", "--export-json", out)
    times = [one["times"] for one in json.loads(out.read_text())["results"]]
    key = ("unknown", 1, "s", "lower")
    expected = {("hyperfine", f"sleep 0.00{n}[n={n}]", *key): times[n - 1] for n in (1, 2)}
    assert run(out, "hyperfine") == expected


def test_version_2_has_its_chief_metric_in_every_measurement(tmp_path):
    memory = {"value": 9, "unit": "byte"}
    measurements = [
        {"time_wall_clock": {"value": value, "unit": "second"}, "memory_peak_resident": memory}
        for value in (0.25, 0.5)
    ]
    result = {"command": "make", "name": "build", "measurements": measurements}
    content = {"schema_version": 2, "metadata": {}, "results": [result]}
    times = {("hyperfine", "build", "unknown", 1, "s", "lower"): [0.25, 0.5]}
    assert run(written(tmp_path / "a.json", content), "hyperfine") == times
    result["summary"] = {"time_wall_clock": {"unit": "second", "count": 2, "mean": 0.375, "min": 0.25}}
    assert run(written(tmp_path / "a.json", content), "hyperfine") == times
    path = written(tmp_path / "a.json", content | {"primary_metric": "memory_peak_resident"})
    assert run(path) == {("hyperfine", "build", "unknown", 1, "B", "lower"): [9, 9]}


@pytest.mark.parametrize("first", ["second", "millisecond", "microsecond", "nanosecond", "ms"])
def test_every_measurement_of_version_2_has_its_own_unit(tmp_path, first):
    sizes = {"second": 1, "millisecond": 1e3, "microsecond": 1e6, "nanosecond": 1e9, "ms": 1e3}
    units = [first, *sizes]
    measurements = [{"time_wall_clock": {"value": 0.25 * sizes[unit], "unit": unit}} for unit in units]
    path = written(tmp_path / "a.json", {"results": [{"command": "make", "measurements": measurements}]})
    ((key, values),) = run(path, "hyperfine").items()
    assert scale_to(key[4], "s") == 1 / sizes[first]
    assert values == pytest.approx([0.25 * sizes[first]] * len(units))
    measurements.append({"time_wall_clock": {"value": 9, "unit": "byte"}})
    written(path, {"results": [{"command": "make", "measurements": measurements}]})
    unit = f'unit "byte" cannot be converted to "{first}"'
    assert refusal(path) == f"a.json: results[0].measurements[...].time_wall_clock: {unit}"


def test_other_fields_of_measurements_have_any_type(tmp_path):
    others = {"exit_code": 0, "user": "me", "load": 0.5, "cpus": [1, 2]}
    measurements = [{"time_wall_clock": time, **others} for time in (0.25, {"value": 0.5, "unit": "s"}, None)]
    path = written(tmp_path / "a.json", {"results": [{"command": "make", "measurements": measurements}]})
    assert run(path, "hyperfine") == {("hyperfine", "make", "unknown", 1, "s", "lower"): [0.25, 0.5]}
    measurements.append({"time_wall_clock": "fast"})
    written(path, {"results": [{"command": "make", "measurements": measurements}]})
    assert refusal(path).startswith("a.json: results[0].measurements[...].time_wall_clock: Expected `object`")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codes", [[0, 0, 0], [0, 1, 127], [0, None, 2]])
def test_a_note_counts_failed_runs(tmp_path, version, codes):
    """As hyperfine writes them with ``--ignore-failure``; a run that a signal ended has no code."""
    times = [0.25, 0.5, 0.75]
    result = {"command": "make", "mean": 0.5, "times": times, "exit_codes": codes}
    if version == 2:
        runs = zip(times, codes, strict=True)
        measurements = [{"time_wall_clock": time, "exit_code": code} for time, code in runs]
        result = {"command": "make", "measurements": measurements}
    notes = []
    path = written(tmp_path / "a.json", {"results": [result]})
    assert [*run(path, "hyperfine", notes).values()] == [times]
    failed = sum(code != 0 for code in codes)
    assert notes == ([f'{path}: {failed} of 3 runs of "make" failed, and are included'] if failed else [])


def test_a_file_without_times_holds_summaries(tmp_path):
    """As versions before 1.9 wrote it, with one parameter."""
    one = {"command": "ls", "stddev": None, "median": 2.0, "min": 1.0, "max": 3.0, "parameter": "7"}
    path = written(tmp_path / "a.json", {"results": [one | {"mean": 2.0}]})
    found = expect_summaries(path, "hyperfine", "max", "mean", "median", "min")
    assert [*found] == [("hyperfine", "ls[parameter=7]", "unknown", 1, "s", "lower")]


def test_a_note_names_a_command_with_several_entries(tmp_path):
    entries = [{"command": name, "mean": 1.0, "times": [1.0, at]} for at, name in enumerate(["a", "b", "a"])]
    path = written(tmp_path / "a.json", {"results": entries})
    assert [*run(path, "hyperfine", notes := []).values()] == [[1, 0, 1, 2], [1, 1]]
    assert notes == [f'{path}: "a" has several entries; their runs are pooled']
