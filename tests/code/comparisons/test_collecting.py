import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from data.comparisons import suite as suites
from data.comparisons.collect import plan
from data.comparisons.repetitions import Repetition, Work
from data.comparisons.truth import tables
from data.corun.collect import MeasuredCorun
from data.errors import InputError
from data.fingerprints.stress_ng import Rate
from data.matrices.collect import Costs, MeasuredRun
from data.measure.journal import Journal
from data.measure.programs import Clocks
from data.measure.workloads import WORKLOADS, run, shares

ALL = frozenset({"none", "work", "quota", "competition"})
SHIPPED = Path(__file__).parents[3] / "data/suites/comparisons.yaml"
SUITE = {
    "kind": "comparisons", "name": "tiny", "seed": 3, "threads": [1, 2], "repetitions": 2,
    "reference_repetitions": 20, "seconds": 0.01, "foreign": 0.9,
    "versions": [
        {"name": "same", "change": "none"},
        {"name": "work-12", "change": "work", "size": 0.12},
        {"name": "quota-20", "change": "quota", "size": 0.2},
    ],
    "operations": [{"name": "sort", "group": "cpu", "workload": "sort"}],
}  # fmt: skip


@pytest.fixture
def suite():
    return suites.Suite.model_validate(SUITE)


def entries(suite, quota_slowdown):
    slower = {"baseline": 1.0, "same": 1.0, "work-12": 1.12, "quota-20": 1 + quota_slowdown}
    for number, task in enumerate(plan(suite, ALL)):
        seconds = slower[task.version.name] * (1 + 0.001 * (task.repetition % 3)) / task.threads
        at = f"2026-11-21T00:00:{number % 60:02d}+00:00"
        yield Repetition(*task.key, 400, at, seconds, seconds, seconds, 0.0, 0.0)


def measured(suite, quota_slowdown):
    return tables(suite, list(entries(suite, quota_slowdown)), ALL)


def test_the_shipped_suite_covers_what_a_measurement_must_cover():
    shipped = suites.load(SHIPPED)
    assert sum(operation.program == "stress-ng" for operation in shipped.operations) >= 24
    assert sum(operation.program == "workload" for operation in shipped.operations) >= 8
    assert shipped.threads == (1, 2, 4)
    assert shipped.repetitions >= 5
    assert shipped.reference_repetitions >= 10 * shipped.repetitions
    sizes = {version.size for version in shipped.versions if version.change == "work"}
    assert {0.02, 0.05, 0.08, 0.12, 0.2, 0.4} <= sizes
    assert min(sizes) < 0


def test_a_plan_interleaves_all_versions_and_is_the_same_every_time(suite):
    tasks = plan(suite, ALL)
    assert tasks == plan(suite, ALL)
    versions = [task.version.name for task in tasks if task.purpose == "sample"]
    assert versions != sorted(versions)
    assert len({task.key for task in tasks}) == len(tasks) == 2 * (4 * 2 + 2 * 20)


def test_a_change_that_the_machine_cannot_inject_is_left_out(suite):
    assert {task.version.change for task in plan(suite, ALL - {"quota"})} == {"none", "work"}


@pytest.mark.parametrize(
    ("slowdown", "statuses"),
    [(0.25, ["pass", "fail", "fail"]), (0.01, ["pass", "fail", "pass"]), (0.05, ["pass", "fail"])],
)
def test_labels_follow_the_injection_or_the_reference_and_the_band_between_is_unlabelled(
    suite, slowdown, statuses
):
    labels = measured(suite, slowdown).tables.labels
    assert labels["status"].tolist() == statuses
    assert labels["labelled_by"].tolist()[:2] == ["injection", "injection"]


def test_the_truth_stands_beside_the_comparison_and_the_reference_beside_the_tables(suite):
    result = measured(suite, 0.25)
    quota = result.tables.comparisons.iloc[2]
    assert quota["truth_source"] == "reference measurement"
    assert quota["truth_slowdown"] == pytest.approx(0.25)
    assert result.reference["repetitions"].tolist() == [20, 20]
    assert len(result.tables.results) == 2 * 4 * 2
    assert result.tables.results["value"].max() == pytest.approx(400 * 2)


def test_an_operation_with_missing_repetitions_makes_no_comparison(suite):
    assert len(tables(suite, list(entries(suite, 0.1))[:-50], ALL).tables.comparisons) == 0


def test_time_out_of_cpu_is_real_time_of_all_threads_less_user_and_kernel_time():
    assert Clocks(1.0, 2.0, 3.0, 0.5).out_of_cpu_seconds(4) == 4.5


def test_a_journal_resumes_and_drops_a_line_that_was_cut_short(suite, tmp_path):
    path, key = tmp_path / "journal.jsonl", {"suite": "s"}
    journal = Journal.open(path, key, Repetition, Work)
    journal.note(Work("sort", 800))
    first, second, *_ = entries(suite, 0.1)
    journal.add(first, second)
    with path.open("a") as file:
        file.write('{"operation": "so')
    again = Journal.open(path, key, Repetition, Work)
    assert again.entries == [first, second]
    assert again.notes == [Work("sort", 800)]
    assert asdict(first) == asdict(again.entries[0])


def test_a_journal_of_another_suite_is_refused(tmp_path):
    Journal.open(tmp_path / "journal.jsonl", {"suite": "a"}, Repetition)
    with pytest.raises(InputError, match=r"journal.jsonl: was begun with another suite"):
        Journal.open(tmp_path / "journal.jsonl", {"suite": "b"}, Repetition)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repetitions": 1}, "suite.yaml: repetitions=1: Input should be greater than or equal to 2"),
        ({"sedds": 1}, 'suite.yaml: sedds is unknown; did you mean "seed"?'),
        (
            {"versions": [SUITE["versions"][0] | {"szie": 0.05}]},
            'suite.yaml: versions.0.szie is unknown; did you mean "size"?',
        ),
        ({"versions": [True]}, "suite.yaml: versions.0=True: Input should be a valid dictionary"),
        (
            {"operations": [{"name": "x", "group": "g"}]},
            'suite.yaml operation "x": names either a stressor or a workload',
        ),
        ({"versions": [SUITE["versions"][0]] * 2}, 'suite.yaml version "same": stands twice'),
    ],
)
def test_a_wrong_suite_is_told_in_one_line(tmp_path, change, message):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE | change))
    with pytest.raises(InputError) as error:
        suites.load(path)
    assert str(error.value).startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "matrix"])
def test_a_workload_does_its_units_in_parallel_processes(name):
    assert 0 < run(name, 8, 2) < 10


def test_units_are_shared_evenly():
    assert shares(10, 4) == [3, 3, 2, 2]


def test_a_line_that_is_no_entry_is_told_in_one_line(suite, tmp_path):
    path, whole = tmp_path / "journal.jsonl", asdict(next(entries(suite, 0.1)))
    for changed, told in (
        ({key: value for key, value in whole.items() if key != "at"}, "at: Field required"),
        (whole | {"seconds": "long"}, "seconds='long': Input should be a valid number"),
    ):
        path.write_text('{"suite": {}}\n{"operation": "sort", "work": 800}\n' + json.dumps(changed) + "\n")
        with pytest.raises(InputError) as error:
            Journal.open(path, {}, Repetition, Work)
        assert str(error.value).startswith(f"{path}:3: {told}")


@pytest.mark.parametrize(
    ("kind", "note", "lines", "keys"),
    [
        (
            Repetition, Work,
            ['{"operation": "sort", "work": 800}',
             ('{"operation": "sort", "version": "v", "threads": 2, "purpose": "sample", "repetition": 0,'
             ' "nominal": 800, "at": "2026-11-21T00:00:00+00:00", "seconds": 0.5, "real_seconds": 0.6,'
             ' "user_seconds": 0.4, "kernel_seconds": 0.1, "out_of_cpu_seconds": 0.7}')],
            [("sort", "v", 2, "sample", 0)],
        ),
        (
            MeasuredRun, Costs,
            ['{"case": "json", "costs": {"unit": 0.001, "leak": 0.0001}}',
             ('{"planned": {"case": "json", "pair": 1, "side": "target", "number": 2, "cause": "leak",'
             ' "size": 0.2, "invalid": ""}, "at": "2026-11-21T00:00:00+00:00", "elapsed": 0.5,'
             ' "transactions": 9, "foreign": 0.01, "metrics": {"faults": 1.5, "perf.lost": null}}')],
            ["json 1 target 2"],
        ),
        (
            MeasuredCorun, None,
            [('{"planned": {"tasks": ["a", "b"], "repetition": 1}, "at": "2026-11-21T00:00:00+00:00",'
             ' "foreign": 0.01, "runs": [{"task": "a", "cpu": 0, "seconds": 0.5, "events": ["faults"],'
             ' "counts": [null], "samples": [[0.5, null]]}]}')],
            [(("a", "b"), 1)],
        ),
        (
            Rate, None,
            [('{"stressor": "cpu", "threads": 0, "repetition": 1, "at": "2026-11-21T00:00:00+00:00",'
             ' "rate": null, "problem": "did nothing", "foreign": 0.25}')],
            [("cpu", 0, 1)],
        ),
    ],
)  # fmt: skip
def test_a_journal_is_read_and_written_as_it_always_was(tmp_path, kind, note, lines, keys):
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{line}\n" for line in ['{"suite": {"name": "s"}}', *lines]))
    journal = Journal.open(path, {"name": "s"}, kind, note)
    assert [entry.key for entry in journal.entries] == keys
    written = Journal.open(tmp_path / "again.jsonl", {"name": "s"}, kind, note)
    for told in journal.notes:
        written.note(told)
    written.add(*journal.entries)
    assert written.path.read_text() == path.read_text()
