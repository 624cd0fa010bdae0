"""Files that a program with Google Benchmark writes here, which is compiled for that."""

import json
from pathlib import Path

import pytest

from tests.data.comparisons.formats.reading import expect_summaries, needs, ran, run, written

PROGRAM = """
#include <benchmark/benchmark.h>
static void BM_Add(benchmark::State& state) {
  long sum = 0;
  for (auto _ : state) for (int i = 0; i < state.range(0); ++i) benchmark::DoNotOptimize(sum += i);
}
BENCHMARK(BM_Add)->Arg(64)->Threads(2)->UseRealTime();
BENCHMARK_MAIN();
"""
NAME = "BM_Add/64/real_time"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not Path("/usr/include/benchmark/benchmark.h").exists():
        pytest.skip("Google Benchmark is not installed")
    directory = tmp_path_factory.mktemp("google")
    source = written(directory / "b.cc", PROGRAM)
    ran("g++", "-O1", source, "-o", directory / "b", "-lbenchmark", "-lpthread")
    return directory / "b"


def measured(program, path, *options):
    fast = ("--benchmark_min_time=0.001", "--benchmark_repetitions=4")
    ran(program, *fast, f"--benchmark_out={path}", "--benchmark_out_format=json", *options)
    return path


@needs("g++")
def test_repetitions_of_a_real_run_are_read_as_samples(program, tmp_path):
    path = measured(program, tmp_path / "a.json")
    entries = json.loads(path.read_text())["benchmarks"]
    times = [one["real_time"] for one in entries if one["run_type"] == "iteration"]
    assert run(path, "google-benchmark") == {("google-benchmark", NAME, "unknown", 2, "ns", "lower"): times}
    assert len(times) == 4


@needs("g++")
def test_a_file_with_only_aggregates_gives_summaries(program, tmp_path):
    path = measured(program, tmp_path / "a.json", "--benchmark_report_aggregates_only=true")
    found = expect_summaries(path, "google-benchmark", "mean", "median", "stdev")
    assert [(key[1], len(values)) for key, values in found.items()] == [(NAME, 3)]


def test_failed_benchmarks_are_left_out_with_a_note(tmp_path):
    """Written from the documentation of version 1.4, whose entries have no ``run_type``."""
    entries = [
        {"name": "BM_a/8/threads:2", "real_time": 3.0, "time_unit": "us"},
        {"name": "BM_a/8/threads:2_mean", "real_time": 3.0, "time_unit": "us"},
        {"name": "BM_a/8/threads:2_stddev", "real_time": 0.0, "time_unit": "us"},
        {"name": "BM_b", "real_time": 0.0, "time_unit": "us", "error_occurred": True},
        {"name": "BM_a_BigO", "real_coefficient": 2.0, "big_o": "N", "time_unit": "us"},
        {"name": "BM_a_RMS", "rms": 0.1},
        {"name": "BM_a_rms", "run_type": "aggregate", "aggregate_name": "RMS", "rms": 0.1},
    ]
    path, notes = written(tmp_path / "a.json", {"context": {}, "benchmarks": entries}), []
    assert run(path, "google-benchmark", notes) == {
        ("google-benchmark", "BM_a/8", "unknown", 2, "us", "lower"): [3.0]
    }
    assert notes == [f"{path}: benchmarks[3] (BM_b) is left out: it was not measured"]


@pytest.mark.parametrize("name", ["BM_vector_max", "BM_mean", "BM_a_cv"])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_a_name_that_ends_like_an_aggregate_is_a_benchmark(tmp_path, name, repetitions):
    times = [10.0, 11.0, 12.0][:repetitions]
    shown = {f"{name}_{kind}": [11.0] for kind in ("mean", "median", "stddev") if repetitions > 1}
    measured = {name: times, "BM_vector": times, "BM_a": times, **shown}
    entries = [{"name": key, "real_time": time} for key, values in measured.items() for time in values]
    path = written(tmp_path / "a.json", {"context": {}, "benchmarks": entries})
    found = {key[1]: values for key, values in run(path, "google-benchmark").items()}
    assert found == dict.fromkeys((name, "BM_vector", "BM_a"), times)
