"""Files that are written from JMH's documentation: JMH is not there."""

from data.comparisons.formats import results_of_run
from tests.data.comparisons.formats.reading import expect_summaries, run, written


def entry(mode, unit, raw, **further):
    metric = {"score": 2.0, "scoreError": "NaN", "scoreUnit": unit, "rawData": raw}
    metric["scorePercentiles"] = {"0.0": 1.0, "50.0": 2.0, "99.0": 3.0, "100.0": 4.0}
    named = {"jmhVersion": "1.37", "benchmark": "org.a.Words.join", "mode": mode}
    return named | {"primaryMetric": metric, "secondaryMetrics": {}} | further


def test_iterations_of_all_forks_are_read_as_samples(tmp_path):
    entries = [
        entry("thrpt", "ops/ms", [[1.0, 2.0], [3.0]], threads=4, params={"n": "8"}),
        entry("avgt", "us/op", [[5.0]]),
    ]
    assert run(written(tmp_path / "a.json", entries), "jmh") == {
        ("org.a.Words", "join[n=8]", "unknown", 4, "ops/ms", "higher"): [1, 2, 3],
        ("org.a.Words", "join", "unknown", 1, "us/op", "lower"): [5],
    }


def test_sampled_times_are_read_as_a_summary(tmp_path):
    path = written(tmp_path / "a.json", [entry("sample", "us/op", [])])
    (values,) = expect_summaries(path, "jmh", "min", "median", "max", "mean").values()
    assert dict(zip(results_of_run(path)["stat"], values, strict=True)) == {
        "min": 1, "median": 2, "max": 4, "mean": 2
    }  # fmt: skip
