"""Files that pytest-benchmark itself writes here."""

import json
import sys

from tests.data.comparisons.formats.reading import SAMPLES, expect_summaries, ran, refusal, run, written

TESTS = """
import pytest

@pytest.mark.parametrize("n", [10, pytest.param(20, id="b::c[d::e]")])
def test_sum(benchmark, n):
    benchmark.pedantic(sum, args=(range(n),), rounds=5, iterations=3)
"""


def test_rounds_of_a_real_run_are_read_with_parameters(tmp_path):
    written(tmp_path / "test_it.py", TESTS)
    out = tmp_path / "out.json"
    options = ("-q", "-p", "no:cacheprovider", "-p", "pytest_benchmark.plugin", "--benchmark-json", out)
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran(sys.executable, "-m", "pytest", *options, "test_it.py", cwd=tmp_path, env=alone)
    stats = {one["name"]: one["stats"] for one in json.loads(out.read_text())["benchmarks"]}
    key = ("unknown", 1, "s", "lower")
    assert run(out, "pytest-benchmark") == {
        ("test_it.py", name, *key): stats[name]["data"] for name in ("test_sum[10]", "test_sum[b::c[d::e]]")
    }
    assert len(stats["test_sum[10]"]["data"]) == 5


def test_a_file_saved_without_data_gives_summaries(tmp_path):
    content = json.loads((SAMPLES / "pytest-benchmark/base.json").read_text())
    for one in content["benchmarks"]:
        del one["stats"]["data"]
    statistics = ("min", "q1", "median", "q3", "max", "mean", "stdev")
    expect_summaries(written(tmp_path / "a.json", content), "pytest-benchmark", *statistics)
    content["benchmarks"][0]["stats"]["data"], notes = [1.0, 2.0], []
    path = written(tmp_path / "a.json", content)
    run(path, notes=notes)
    others = ", ".join(one["name"] for one in content["benchmarks"][1:])
    assert notes == [f"{path} holds summaries only of {others}, without the repetitions behind them"]


def test_a_wrong_value_is_named_with_its_place(tmp_path):
    content = json.loads((SAMPLES / "pytest-benchmark/base.json").read_text())
    content["benchmarks"][1]["stats"]["data"][2] = "fast"
    path = written(tmp_path / "a.json", content)
    assert refusal(path) == "a.json: benchmarks[1].stats.data[2]: Expected `float`, got `str`"
