"""Files that are written from JMH's documentation: JMH is not there."""

import pytest

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.comparisons.pair import MatchedOperations, paired_runs, under_names_of
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
    found = dict(zip(results_of_run(path)["stat"], values, strict=True))
    assert found == {"min": 1, "median": 2, "max": 4, "mean": 2}


def test_metrics_of_profilers_are_left_out_with_a_note(tmp_path):
    secondary = {f"gc.{name}": {"score": 1.0, "scoreUnit": "B/op", "rawData": [[1.0]]} for name in "abcde"}
    entries = [entry("avgt", "ms/op", [[2.0]]), entry("ss", "ms/op", [[3.0]], secondaryMetrics=secondary)]
    path, notes = written(tmp_path / "a.json", entries), []
    assert [*run(path, "jmh", notes).values()] == [[2], [3]]
    part = "secondaryMetrics (gc.a, gc.b, gc.c, gc.d and 1 more)"
    assert notes == [f"{path}: {part} is left out: only primary ones are read"]


#: A value of each mode, by which samples are told apart.
LEVELS = {"thrpt": 1.0, "avgt": 2.0, "ss": 3.0}
SUBSETS = [("thrpt",), ("avgt",), ("thrpt", "avgt"), ("ss", "avgt", "thrpt")]


def run_in(path, modes):
    """Write a run of a benchmark in each of the modes, and of another in one mode."""
    units = {mode: "ops/ms" if mode == "thrpt" else "ms/op" for mode in modes}
    entries = [entry(mode, units[mode], [[LEVELS[mode]] * 2], params={"n": "8"}) for mode in modes]
    return written(path, [*entries, entry("avgt", "ms/op", [[9.0, 9.0]], benchmark="org.a.Words.split")])


@pytest.fixture
def files(tmp_path):
    return {modes: run_in(tmp_path / f"{'-'.join(modes)}.json", modes) for modes in SUBSETS}


@pytest.fixture
def runs(files):
    return {modes: results_of_run(path) for modes, path in files.items()}


def test_a_name_has_its_mode_if_there_are_several(runs):
    for modes, results in runs.items():
        names = ["join[n=8]"] if len(modes) == 1 else [f"join[n=8] {mode}" for mode in modes]
        assert results["operation"].drop_duplicates().tolist() == [*names, "split"]


@pytest.mark.parametrize("past", [SUBSETS[0], SUBSETS[3]])
@pytest.mark.parametrize("before", SUBSETS)
@pytest.mark.parametrize("after", SUBSETS)
def test_only_equal_modes_of_a_benchmark_are_compared(runs, before, after, past):
    results = paired_runs([runs[before]], [runs[after]], [runs[past]]).tables.results
    levels = results.groupby(["operation", "order"])["value"].agg(set).unstack("order").drop("split")
    common = {mode for mode in before if mode in after}
    assert list(map(set, levels[1])) == list(map(set, levels[2]))
    assert set().union(*levels[1]) == {LEVELS[mode] for mode in common}
    in_past = levels.reindex(columns=[0])[0].dropna()
    assert set().union(*in_past) == {LEVELS[mode] for mode in common.intersection(past)}
    assert in_past.tolist() == levels.loc[in_past.index, 1].tolist()


@pytest.mark.parametrize("before", SUBSETS)
@pytest.mark.parametrize("after", SUBSETS)
def test_sources_are_compared_in_equal_modes_only(files, before, after):
    found = formats.read_tables("jmh", [files[before], files[after]]).tables.comparisons["operation"].tolist()
    several = len({*before, *after}) > 1
    names = [f"join[n=8] {mode}" if several else "join[n=8]" for mode in before if mode in after]
    assert found == [*names, "split"]


def test_different_modes_can_be_matched_by_their_names(runs):
    baseline, both = runs["avgt",], runs["thrpt", "avgt"]
    matched = MatchedOperations({("org.a.Words", "join[n=8] thrpt"): ("org.a.Words", "join[n=8]")})
    pair = paired_runs([baseline], [matched.of_target(both.assign(better="lower", unit="ms/op"))])
    values = pair.tables.results.query("operation == 'join[n=8]'").groupby("order")["value"].agg(set)
    assert values.loc[1] >= {LEVELS["thrpt"]}


def test_repeated_runs_have_the_names_of_the_comparison(runs):
    for first in runs.values():
        for results in runs.values():
            named = under_names_of(first, results)
            names = dict(
                [*named[["value", "operation"]].to_numpy(), *first[["value", "operation"]].to_numpy()]
            )
            assert named["operation"].tolist() == named["value"].map(names).tolist()
