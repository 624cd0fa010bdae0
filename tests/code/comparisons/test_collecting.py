import json
import math
import os
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from data.comparisons import suite as suites
from data.comparisons.builds import BuildRun, Slowdown, Trial, Workshop
from data.comparisons.collect import tables_of_journal
from data.comparisons.suite import plan_runs
from data.corun.collect import MeasuredCorun
from data.measure import machine
from data.measure.machine import Disturbance, Pinned
from data.measure.session import PROGRAMS, Journal
from tests.code.suites import COMPARISONS, SORT
from tests.data.refusals import refusal

SHIPPED = Path(__file__).parents[3] / "data/suites/comparisons.yaml"


@pytest.fixture
def suite():
    return suites.Suite.model_validate(COMPARISONS)


@pytest.fixture
def workshop(suite, tmp_path):
    return Workshop(suite, tmp_path)


def entries(suite, slower):
    """Yield what measuring gave, by how many times a change takes longer; 2 threads show half of it."""
    noise = 1 + 0.002 * np.sin(np.arange(8))
    for number, task in enumerate(plan_runs(suite)):
        factor = 1 + (slower.get(task.variant.change, 1) - 1) / task.threads
        at = f"2026-11-22T00:{number // 60:02d}:{number % 60:02d}+00:00"
        unchanged = tuple(noise[::-1]) if task.purpose == "reference" else ()
        yield BuildRun(*task.journal_key, at, 0.0, tuple(factor * noise), unchanged)


def measured(suite, taken, tmp_path):
    return tables_of_journal(suite, Journal(tmp_path, [*taken], [Trial("sort", "", 9, 5, 0.01, "")]))[0]


def operation(suite, **changed):
    return suite.operations[0].model_copy(update=changed)


def test_shipped_suite_has_programs_and_meets_its_requirements():
    shipped = suites.load_suite(SHIPPED)
    assert (len(shipped.operations) >= 100, shipped.history >= 8) == (True, True)
    assert {one.metric for one in shipped.operations} == set(suites.METRICS)
    extras = [change.extra for one in shipped.operations for change in shipped.changed_builds(one)]
    assert extras.count(0) >= 250
    sizes = {round(size, 1 if size > 0.15 else 2) for size in extras}
    assert {0.02, 0.05, 0.1, 0.2, 0.4, 0.6} <= sizes
    assert min(sizes) < 0
    for one in shipped.operations:
        for name in re.findall(r"\{programs\}/([\w.]+)", f"{one.build} {one.command}"):
            assert (PROGRAMS / name).is_file()
        for module, function in re.findall(r"\{(?:run|site)\} (\w+) (\w+)", one.command):
            assert f"def {function}(" in (PROGRAMS / f"{module}.py").read_text()


def test_a_deterministic_plan_spreads_unchanged_passes_over_time(suite):
    tasks = plan_runs(suite)
    assert tasks == plan_runs(suite)
    assert len({task.journal_key for task in tasks}) == len(tasks)
    passes = [task.number for task in tasks if not task.variant.change and task.threads == 1]
    assert passes == list(range(6))
    references = [i for i, task in enumerate(tasks) if task.purpose == "reference"]
    changed = [i for i, task in enumerate(tasks) if task.variant.change and task.purpose == "run"]
    fourth = [i for i, task in enumerate(tasks) if task.journal_key[:4] == ("sort", "", "run", 3)]
    assert min(changed) > max(fourth) > max(references)


def test_sample_counts_vary_between_runs_within_the_limits(suite):
    taken = {work: {task.draw_sample_count(suite, work) for task in plan_runs(suite)} for work in (1, 8, 100)}
    assert len(taken[8]) > 2
    assert (taken[1], taken[100]) == ({3}, {15})


@pytest.mark.parametrize(
    ("slower", "label"), [(1.25, "fail"), (1.06, "fail"), (1.025, None), (1.01, "pass"), (0.8, "pass")]
)
def test_labels_follow_the_worst_configuration_unless_it_is_ambiguous(suite, slower, label, tmp_path):
    made = measured(suite, entries(suite, {"nearly": slower}), tmp_path)
    labels = made.labels.set_index("comparison_id")["status"]
    assert labels.get("sort/nearly") == label
    assert labels.drop("sort/nearly", errors="ignore").eq("pass").all()
    truth = made.comparisons.set_index("comparison_id")["truth_slowdown"]
    assert truth["sort/nearly"] == pytest.approx(max(slower - 1, (slower - 1) / 2), abs=0.002)


def test_histories_hold_unchanged_builds_and_targets_all_changed_runs(suite, tmp_path):
    made = measured(suite, entries(suite, {}), tmp_path)
    assert len(made.comparisons) == 2 + 3
    assert made.comparisons["baseline_from"].min() >= suite.history
    assert (made.comparisons["target_from"] > made.comparisons["baseline_to"]).all()
    versions = made.results.drop_duplicates("order").set_index("order")["version"].sort_index()
    assert (versions.str.startswith("pass") == (versions.index < suite.passes)).all()
    for one in made.comparisons[made.comparisons["truth_source"] == "reference measurement"].itertuples():
        assert set(versions.loc[one.target_from : one.target_to]) == {one.comparison_id.removeprefix("sort/")}
    assert made.comparisons.eval("target_to - target_from").max() >= 0
    # builds without references or passes give no comparison
    whole = [*entries(suite, {})]
    some = measured(suite, (one for one in whole if one.purpose == "run"), tmp_path)
    assert set(some.comparisons["truth_source"]) == {"the same build"}
    early = measured(suite, (one for one in whole if one.change or one.number < 3), tmp_path)
    assert early.comparisons.empty


def test_slowdown_intervals_are_those_of_the_signed_rank_test():
    unchanged, changed = np.full(8, 2.0), 2.0 * np.array([1.08, 1.09, 1.1, 1.1, 1.1, 1.11, 1.12, 9.0])
    slow = Slowdown.from_samples(unchanged, changed, "lower")
    assert slow.share == pytest.approx(0.105, abs=0.006)
    assert slow.low == pytest.approx(0.09, abs=0.006)
    assert slow.status == "fail"
    assert Slowdown.from_samples(1 / unchanged, 1 / changed, "higher").low == pytest.approx(slow.low)
    # those of unchanged builds cover zero as stated
    drawn = np.random.default_rng(1).lognormal(0, 0.02, (2000, 2, 12))
    found = [Slowdown.from_samples(*sides, "lower") for sides in drawn]
    assert 0.94 < np.mean([one.low <= 0 <= one.high for one in found]) < 0.975


@pytest.mark.parametrize(
    ("metric", "command", "low", "high"),
    [
        ("seconds", "echo 0.5 100", 0.5, 0.5),
        ("rate", "echo 0.5 100", 40, 40),
        ("peak", "echo 0.5 100", 100, 100),
        ("real", "sleep 0.2", 0.2, math.inf),
        # waiting takes no processor time, however busy the machine is
        ("cpu", "sleep 0.5", 0.0, 0.25),
        ("peak", SORT["command"], 4000, 200_000),
        ("cpu", SORT["command"], 0.005, math.inf),
    ],
)
def test_a_sample_is_measured_as_its_metric_defines(suite, workshop, metric, command, low, high):
    measuring = operation(suite, metric=metric, command=command)
    assert low <= workshop.measure_sample(measuring.unchanged_build, 20, 1) <= high


def test_work_and_settings_fill_the_command_and_its_environment(suite, workshop, tmp_path):
    command = f"sh -c 'echo {{work}} >> {tmp_path}/done; echo 0.5 100'"
    extra = replace(operation(suite, command=command, metric="rate").unchanged_build, extra=0.25)
    # rates count nominal work
    assert workshop.measure_sample(extra, 100, 1) == 200
    assert (tmp_path / "done").read_text() == "125\n"
    told = operation(suite, command="sh -c 'echo $NUMBER {size}'").unchanged_build
    for number in (0.25, 1.5):
        build = replace(told, settings={"NUMBER": number, "size": 7})
        assert workshop.measure_sample(build, 1, 1) == number


def test_requirements_of_a_command_are_built_once_per_build(suite, workshop, tmp_path):
    build = f"sh -c 'echo {{flags}} >> {tmp_path}/built; echo {{flags}} > {{out}}'"
    made = operation(suite, build=build, command="cat {out}", settings={"flags": 0.5})
    assert [workshop.measure_sample(made.unchanged_build, work, 1) for work in (1, 2)] == [0.5, 0.5]
    assert workshop.measure_sample(replace(made.unchanged_build, settings={"flags": 0.75}), 1, 1) == 0.75
    assert (tmp_path / "built").read_text() == "0.5\n0.75\n"


SETTINGS = "{python}, {programs}, {memory}, {disk}, {shape}, {work}, {threads}, {out}, {run}, {site}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-program {work}", "needs the program 'no-such-program', which is not installed"),
        ("sh -c 'echo no library; exit 3'", "exit code 3 (no library)"),
        ("echo done", "'done' is not a value of seconds"),
        ("echo {level}", f"'level' is not a setting; expected {SETTINGS}"),
        ("echo {work.level}", f"'int' object has no attribute 'level'; expected {SETTINGS}"),
    ],
)
def test_measurement_errors_name_the_failing_operation(suite, workshop, command, told):
    trial = workshop.choose_work_per_sample(operation(suite, command=command))
    assert (trial.samples, trial.problem) == (0, f'operation "sort": {told}')


def test_a_trial_scales_work_to_the_wanted_sample_duration(suite, workshop, tmp_path):
    told = operation(suite, command="awk 'BEGIN {{ print {work} / 4000 }}'")
    trial = workshop.choose_work_per_sample(told)
    assert trial.work == pytest.approx(40, abs=1)
    assert (trial.noise, trial.samples, trial.problem) == (0.0, 5, "")


def test_pinning_restricts_a_process_to_one_prioritised_processor(tmp_path, monkeypatch):
    before = os.sched_getaffinity(0), os.nice(0)
    processor = min(before[0])
    with Pinned(processor, before[1]) as pinned:
        assert os.sched_getaffinity(0) == {processor}
    assert pinned.settings == {"processor": str(processor), "nice": str(before[1])}
    with Pinned(4095, None) as pinned:
        assert os.sched_getaffinity(0) == before[0]
    assert pinned.settings["processor"].startswith("any: 4095 is not available")
    assert (os.sched_getaffinity(0), os.nice(0)) == before
    # a kernel without groups of sessions
    nothing = tmp_path / "autogroup"
    nothing.write_text("")
    monkeypatch.setattr(machine, "AUTOGROUP", nothing)
    with Pinned(processor, before[1]) as pinned:
        assert pinned.settings["nice"] == str(before[1])
    assert nothing.read_text() == ""
    # foreign load is read from the processor's own line
    watch = Disturbance(processor=processor)
    sum(range(10**6))
    assert 0 <= watch.foreign_share() <= 2


def test_an_invalid_journal_entry_gives_a_one_line_error(suite, tmp_path):
    path, whole = tmp_path / "journal.jsonl", asdict(next(entries(suite, {})))
    trial = json.dumps(asdict(Trial("sort", "", 800, 5, 0.01, "")))
    for changed, told in (
        ({key: value for key, value in whole.items() if key != "at"}, "lacks at"),
        (whole | {"foreign": "much"}, 'foreign="much" is not a number'),
    ):
        path.write_text(f'{{"suite": {{}}}}\n{trial}\n' + json.dumps(changed) + "\n")
        line = refusal(Journal.open_or_create, path, {}, BuildRun, Trial)
        assert line.startswith(f"{path}:3: {told}")


@pytest.mark.parametrize(
    ("kind", "note", "lines", "keys"),
    [
        (
            BuildRun, Trial,
            [('{"operation": "sort", "change": "", "work": 800, "samples": 5, "noise": 0.01, "problem": ""}'),
             ('{"operation": "sort", "change": "O1", "purpose": "reference", "number": 0, "threads": 2,'
             ' "at": "2026-11-22T00:00:00+00:00", "foreign": 0.01, "values": [0.5, 0.6],'
             ' "unchanged": [0.4, 0.5]}')],
            [("sort", "O1", "reference", 0, 2)],
        ),
        (
            MeasuredCorun, None,
            [('{"planned": {"tasks": ["a", "b"], "repetition": 1}, "at": "2026-11-21T00:00:00+00:00",'
             ' "foreign": 0.01, "runs": [{"task": "a", "cpu": 0, "seconds": 0.5, "events": ["faults"],'
             ' "counts": [null], "samples": [[0.5, null]]}]}')],
            [(("a", "b"), 1)],
        ),
    ],
)  # fmt: skip
def test_journals_keep_their_format_and_drop_a_truncated_line(tmp_path, kind, note, lines, keys):
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{line}\n" for line in ['{"suite": {"name": "s"}}', *lines]))
    journal = Journal.open_or_create(path, {"name": "s"}, kind, note)
    assert [entry.journal_key for entry in journal.entries] == keys
    written = Journal.open_or_create(tmp_path / "again.jsonl", {"name": "s"}, kind, note)
    for told in journal.notes:
        written.add_note(told)
    written.add_entries(*journal.entries)
    assert written.path.read_text() == path.read_text()
    with path.open("a") as file:
        file.write(lines[-1][:20])
    again = Journal.open_or_create(path, {"name": "s"}, kind, note)
    assert (again.entries, again.notes) == (journal.entries, journal.notes)
