import json
from pathlib import Path

import pytest
import yaml

from data import collect
from data.errors import InputError
from data.fingerprints import stress_ng
from data.fingerprints import suite as fingerprint_suite
from data.fingerprints.collect import collect as collect_fingerprint
from data.fingerprints.collect import measure, plan, problems, tables
from data.fingerprints.stress_ng import PlannedStressor, Rate
from data.fingerprints.suite import FingerprintSuite
from data.fingerprints.tables import CATEGORIES
from data.measure.child import Finished
from data.measure.session import Journal, Session
from tests.seen import Seen

SHIPPED = Path(__file__).parents[3] / "data/suites/fingerprint.yaml"
SUITE = {
    "kind": "fingerprint", "name": "tiny", "seed": 3, "seconds": 1, "repetitions": 3,
    "threads": ["one", "all"], "stressors": ["cpu", "nop", "gone"],
}  # fmt: skip
MACHINE = {
    "hostname": "h", "processor": "Xeon", "processors": "4", "stress-ng": "0.15.06", "memory": "8 GB",
    "kernel": "6", "distribution": "D", "nice": "0",
}  # fmt: skip
HAS = frozenset({"cpu", "nop"})


@pytest.fixture
def suite():
    return FingerprintSuite.model_validate(SUITE)


def rate(stressor, threads, repetition, value=5.0, problem=""):
    return Rate(stressor, threads, repetition, "2026-11-21T00:00:00+00:00", value, problem, 0.25)


def test_the_shipped_suite_has_the_stressors_of_table_1_on_one_and_all_threads():
    shipped = fingerprint_suite.load(SHIPPED)
    assert shipped.stressors == tuple(CATEGORIES)
    assert shipped.threads == ("one", "all")
    assert shipped.repetitions >= 3


def test_each_repetition_runs_everything_that_there_is_in_an_order_of_its_own(suite):
    tasks = plan(suite, HAS)
    assert tasks == plan(suite, HAS)
    rounds = [tasks[begin : begin + 4] for begin in (0, 4, 8)]
    everything = {(stressor, threads) for stressor in HAS for threads in (0, 1)}
    for number, tasks in enumerate(rounds, 1):
        assert {(task.stressor, task.threads) for task in tasks} == everything
        assert {task.repetition for task in tasks} == {number}
    assert len({tuple((task.stressor, task.threads) for task in tasks) for tasks in rounds}) > 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metrics:\n    - stressor: cpu\n      bogo-ops-per-second-real-time: 1753.68\n", 1753.68),
        ("system-info:\n  cpus: 2\nmetrics:\n    - {bogo-ops-per-second-real-time: 0.0}\n", None),
        ("metrics:\n", None),
        ("metrics: []\n", None),
        ("---\n", None),
        ("metrics: [", None),
        (None, None),
    ],
)
def test_the_rate_is_what_stress_ng_reports_and_none_where_it_reports_none(tmp_path, text, expected):
    if text is not None:
        (tmp_path / "report.yaml").write_text(text)
    assert stress_ng.reported(tmp_path / "report.yaml") == expected


@pytest.mark.parametrize(
    ("stressor", "code", "reason"),
    [
        ("af-alg", 0, "did nothing"),
        ("cpu", 3, "ended with exit code 3 (No stress workers invoked)"),
        ("oom-pipe", 1, "ended with exit code 1 (disabled 'oom-pipe' as it may hang)"),
        ("vm", -9, "ended with exit code -9 (No stress workers invoked)"),
    ],
)
def test_why_a_stressor_has_no_rate_is_told(stressor, code, reason):
    output = """stress-ng: info:  [12] dispatching hogs: 1 oom-pipe, 1 cpu
stress-ng: info:  [12] disabled 'oom-pipe' as it may hang
stress-ng: error: [12] No stress workers invoked
"""
    assert stress_ng.why_no_rate(stressor, Finished(code, output, (1, 1, 1))) == reason


def test_only_what_the_journal_lacks_is_measured_and_kept_at_once(suite, tmp_path, monkeypatch):
    ran = []

    def run(task, given):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(task)
        assert given == suite
        return rate(task.stressor, task.threads, task.repetition)

    monkeypatch.setattr(stress_ng, "run", run)
    path, seen = tmp_path / "journal.jsonl", Seen()
    with Session(Journal.open(path, SUITE, Rate), seen, "rates") as session:
        measure(session, suite, HAS)
    assert not session.finished
    assert seen.notes == ["kept 3 rates; start again to resume"]
    again = Journal.open(path, SUITE, Rate)
    assert [entry.key for entry in again.entries] == [task.key for task in ran]
    assert ran == plan(suite, HAS)[:3]
    monkeypatch.setattr(stress_ng, "run", lambda task, _: rate(task.stressor, task.threads, task.repetition))
    with Session(again, seen, "rates") as session:
        measure(session, suite, HAS)
    assert session.finished
    kept = [entry.key for entry in Journal.open(path, SUITE, Rate).entries]
    assert kept == [task.key for task in plan(suite, HAS)]
    assert seen.lines[-1] == (12, 12, "done")


def test_a_fingerprint_that_was_begun_with_another_stress_ng_is_refused(tmp_path, monkeypatch):
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    (tmp_path / "journal.jsonl").write_text(json.dumps({"suite": SUITE | {"stress-ng": "0.1"}}) + "\n")
    monkeypatch.setattr(stress_ng, "available", lambda: HAS)
    with pytest.raises(InputError, match="was begun with another suite"):
        collect_fingerprint(tmp_path / "suite.yaml", tmp_path, Seen())


def test_the_tables_hold_what_is_measured_and_a_gap_where_a_stressor_did_nothing(suite):
    idle = rate("af-alg", 1, 1, None, "did nothing (x)")
    rates = [rate("cpu", 0, 1, 7.5), idle, rate("af-alg", 0, 1, None, "did nothing (y)")]
    found = tables(suite, rates, MACHINE)
    assert found.machines["bogo_ops_per_second"].tolist()[0] == 7.5
    assert found.machines["bogo_ops_per_second"].isna().tolist() == [False, True, True]
    assert found.machines["threads"].tolist() == [0, 1, 0]
    assert found.hosts[["machine", "cpu", "cores", "stress_ng", "foreign"]].to_numpy().tolist() == [
        ["h Xeon x4", "Xeon", 4, "0.15.06", 0.25]
    ]
    assert found.applications.empty
    assert problems(rates) == ["no rate of af-alg: it did nothing (x)"]


def test_all_threads_are_stress_ng_s_own_zero():
    command = stress_ng.command(PlannedStressor("cpu", 0, 1), 2, Path("r.yaml"))
    assert command[:5] == ["stress-ng", "--cpu", "0", "--timeout", "2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": 0}, "suite.yaml: seconds=0: Input should be greater than or equal to 1"),
        ({"threads": ["some"]}, "suite.yaml: threads.0='some': Input should be 'one' or 'all'"),
        ({"stressors": ["cpu", "cpu"]}, 'suite.yaml stressor "cpu": stands twice'),
        (
            {"colour": "red"},
            "suite.yaml: colour is unknown; there are kind, name, seed, timeout, seconds, repetitions",
        ),
    ],
)
def test_a_wrong_suite_is_told_in_one_line(tmp_path, change, message):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE | change))
    with pytest.raises(InputError) as error:
        fingerprint_suite.load(path)
    assert str(error.value).startswith(f"{tmp_path}/{message}")


def test_the_kind_of_a_suite_chooses_its_collector(tmp_path):
    assert collect.collector(SHIPPED).__module__ == "data.fingerprints"
    assert collect.collector(SHIPPED.with_name("comparisons.yaml")).__module__ == "data.comparisons"
    path = tmp_path / "suite.yaml"
    path.write_text("kind: weather\n")
    with pytest.raises(InputError, match=r"suite\.yaml: kind='weather': expected comparisons or matrix"):
        collect.collector(path)
