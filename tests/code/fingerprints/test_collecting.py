import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from data.errors import InputError
from data.fingerprints import collect, constraints
from data.fingerprints.collect import FingerprintSuite, MeasuredRun, build_tables, plan_runs
from data.fingerprints.constraints import Constraint, confined
from data.fingerprints.tables import CATEGORIES
from data.measure.kernel_counts import PROC, is_running, read_lines, with_descendants
from data.measure.session import Journal, Session, fill_command
from tests.code.suites import CONSTRAINED, FINGERPRINT
from tests.data.refusals import refusal
from tests.seen import Seen

SHIPPED = Path(__file__).parents[3] / "data/suites/fingerprint.yaml"
MACHINE = {
    "hostname": "h", "processor": "Xeon", "processors": "4", "stress-ng": "0.15.06", "memory": "8 GB",
    "kernel": "6", "distribution": "D", "nice": "0",
}  # fmt: skip
HAS = frozenset({"cpu", "nop"})


SUITE, CONSTRAINED_SUITE = map(FingerprintSuite.model_validate, (FINGERPRINT, CONSTRAINED))


def ended(last_line=""):
    return SimpleNamespace(code=0, output=last_line, last_line=last_line, seconds=1.0)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return a function that measures a suite in a session; the rate of every stressor is 7."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(collect, "reported", lambda _: 7.0)

    def measure(suite, execute, confined=lambda *_: nullcontext(list), stressors=HAS):
        monkeypatch.setattr(collect, "execute", execute)
        monkeypatch.setattr(collect, "confined", confined)
        journal = Journal.open_or_create(tmp_path / "journal.jsonl", suite, MeasuredRun)
        with Session(journal, Seen(), "runs") as session:
            collect.measure_runs(session, FingerprintSuite(**suite), stressors)
        return session

    return measure


def test_shipped_suite_has_all_stressors_of_table_1():
    shipped = collect.load_suite(SHIPPED)
    assert (shipped.stressors, shipped.threads) == (tuple(CATEGORIES), ("one", "all"))
    assert shipped.repetitions >= 3


@pytest.mark.parametrize(
    ("suite", "names", "batches"),
    [(SUITE, sorted([*HAS] * 2), 3), (CONSTRAINED_SUITE, ["cpu", "nop", "sort"], 8)],
    ids=["stressors", "constraints"],
)
def test_every_batch_runs_everything_in_random_order(suite, names, batches):
    tasks, size = plan_runs(suite, HAS), len(names)
    assert tasks == plan_runs(suite, HAS)
    found = [tasks[begin : begin + size] for begin in range(0, len(tasks), size)]
    assert [sorted(task.name for task in batch) for batch in found] == [names] * batches
    assert [len({(task.constraint, task.repetition) for task in batch}) for batch in found] == [1] * batches
    repetitions = [batch[0].repetition for batch in found]
    assert repetitions == sorted(repetitions)
    orders = {tuple((task.name, task.threads) for task in batch) for batch in found}
    assert len(orders) > 1
    assert {len({*order}) for order in orders} == {size}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metrics:\n    - stressor: cpu\n      bogo-ops-per-second-real-time: 1753.68\n", 1753.68),
        ("system-info:\n  cpus: 2\nmetrics:\n    - {bogo-ops-per-second-real-time: 0.0}\n", None),
        *((text, None) for text in ("metrics:\n", "metrics: []\n", "---\n", "metrics: [", None)),
    ],
)
def test_rates_are_read_from_the_stress_ng_report(tmp_path, text, expected):
    if text is not None:
        (tmp_path / "report.yaml").write_text(text)
    assert collect.reported(tmp_path / "report.yaml") == expected


OUTPUT = """stress-ng: info:  [12] dispatching hogs: 1 oom-pipe, 1 cpu
stress-ng: info:  [12] disabled 'oom-pipe' as it may hang
stress-ng: error: [12] No stress workers invoked
"""


@pytest.mark.parametrize(
    ("stressor", "code", "reason"),
    [
        ("af-alg", 0, "did nothing"),
        ("cpu", 3, "ended with exit code 3 (No stress workers invoked)"),
        ("oom-pipe", 1, "ended with exit code 1 (disabled 'oom-pipe' as it may hang)"),
        ("vm", -9, "ended with exit code -9 (No stress workers invoked)"),
    ],
)
def test_a_missing_rate_has_a_stated_reason(stressor, code, reason):
    assert collect.why_no_rate(stressor, code, OUTPUT) == reason


@pytest.mark.parametrize("printed", ["nan", "inf", "-1", "0", "soon", "1e999"])
def test_programs_that_print_no_seconds_have_no_value(printed, measured):
    entries = measured(CONSTRAINED, lambda *_: ended(printed)).journal.entries
    programs = {(entry.value, entry.problem) for entry in entries if entry.kind == "program"}
    assert programs == {(None, f"printed no seconds ({printed})")}


@pytest.mark.parametrize("suite", [FINGERPRINT, CONSTRAINED | {"programs": []}])
def test_a_suite_without_anything_to_run_is_refused(suite, measured):
    told = refusal(measured, suite, None, stressors=frozenset())
    assert told.endswith("no program, and stress-ng has none of the stressors: cpu, nop, gone")


def test_a_fingerprint_of_nothing_or_another_stress_ng_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "available", lambda: HAS)
    monkeypatch.setattr(collect, "execute", lambda *_: ended())
    (suite := tmp_path / "suite.yaml").write_text(yaml.safe_dump(FINGERPRINT))
    nothing = f"{suite}: nothing could be measured; cpu: it did nothing; nop: it"
    assert refusal(collect.collect, suite, tmp_path, Seen()).startswith(nothing)
    assert len(json.loads((tmp_path / "settings.json").read_text())["without_rate"]) == 2
    # resuming with only the version changed
    journal = tmp_path / "journal.jsonl"
    begun = json.loads(journal.read_text().splitlines()[0])
    begun["suite"]["stress-ng"] += ".1"
    journal.write_text(json.dumps(begun) + "\n")
    assert "was begun with another suite" in refusal(collect.collect, suite, tmp_path, Seen())


def test_idle_stressors_are_gaps_in_the_tables():
    cells = [("cpu", 0, 7.5, ""), *(("af-alg", n, None, f"did nothing ({n})") for n in (1, 0))]
    rates = [
        MeasuredRun("", "stressor", name, threads, 1, "2026-11-21T00:00:00+00:00", value, problem, 0.25)
        for name, threads, value, problem in cells
    ]
    found = build_tables(SUITE, rates, MACHINE)
    assert found.machines["bogo_ops_per_second"].fillna(-1).tolist() == [7.5, -1, -1]
    assert found.machines["threads"].tolist() == [0, 1, 0]
    hosts = found.hosts[["machine", "cpu", "cores", "stress_ng", "foreign"]].to_numpy().tolist()
    assert hosts == [["h Xeon x4", "Xeon", 4, "0.15.06", 0.25]]
    assert found.applications.empty
    assert collect.failure_lines(rates) == ["af-alg: it did nothing (1)"]


def test_results_under_a_constraint_are_saved_before_the_next(measured):
    on, ran = [], []

    def execute(command, *_):
        ran.append((on[-1], command[-1]))
        return ended("0.25 1000")

    @contextmanager
    def confined(constraint, _):
        on.append(constraint.name)
        yield lambda command: [*command, constraint.name]

    session = measured(CONSTRAINED, execute, confined)
    assert len(on) == 8
    assert all(one == other for one, other in ran)
    found = build_tables(CONSTRAINED_SUITE, session.journal.entries, MACHINE)
    assert set(found.machines["machine"]) == {"a 1", "a 2", "b 1", "b 2"}
    assert set(found.machines["bogo_ops_per_second"]) == {7.0}
    assert set(found.applications["value"]) == {0.25}
    assert found.hosts["cpu"].tolist() == ["Xeon, a", "Xeon, a", "Xeon, b", "Xeon, b"]
    assert found.hosts["source"].unique().tolist() == ["suite tiny: Xeon under constraints"]


def test_a_constraint_is_removed_after_its_runs(tmp_path, monkeypatch):
    pages = tmp_path / "enabled"
    monkeypatch.setattr(constraints, "HUGE_PAGES", pages)
    constraint = Constraint(name="c", kind="k", huge_pages="never", traced=2)
    # what this machine lacks is refused by name
    with pytest.raises(InputError, match='constraint "c": cannot be put on here'), confined(constraint, 1):
        pass
    pages.write_text("always [madvise] never")
    with confined(constraint, 1) as wrap:
        assert pages.read_text() == "never"
        command = wrap(["true"])
        assert (command[:2], command[-2:]) == (["perf", "stat"], ["--", "true"])
        assert command[command.index("--event") + 1].count("sys_enter") == 2
    assert pages.read_text() == "madvise"


def test_a_neighbour_that_ends_before_the_runs_is_an_error(tmp_path, monkeypatch):
    program = tmp_path / "stress-ng"
    program.write_text('#!/bin/sh\necho $$ "$@" > started\nuntil [ -e end ]; do sleep 0.05; done\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)

    def run_beside(end):
        with confined(Constraint(name="c", kind="k", neighbour="cpu"), 0):
            pid, *options = Path("started").read_text().split()
            if end:
                Path("end").touch()
            while end and is_running(int(pid)):
                time.sleep(0.01)
        return int(pid), options

    pid, options = run_beside(end=False)
    assert options[:4] == ["--cpu", "1", "--timeout", "0"]
    assert not is_running(pid)
    told = "neighbour cpu: ended while runs were measured: exit code 3 ("
    assert refusal(run_beside, end=True).startswith(told)


@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng is not installed")
def test_a_neighbour_ends_with_a_killed_measurement():
    def is_stress_ng(pid):
        return any(line.startswith("stress-ng") for line in read_lines(PROC / str(pid) / "comm"))

    code = (
        "import time; from data.fingerprints.constraints import *\n"
        "with confined(Constraint(name='c', kind='k', neighbour='stream'), 0): time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=SHIPPED.parents[2]) as measurement:
        neighbours = []
        while len(neighbours) < 2 and measurement.poll() is None:
            time.sleep(0.05)
            neighbours = [pid for pid in with_descendants(measurement.pid) if is_stress_ng(pid)]
        measurement.kill()
    assert len(neighbours) == 2
    end = time.monotonic() + 60
    while any(map(is_running, neighbours)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, neighbours))


def test_placeholders_in_commands_of_programs_are_filled(monkeypatch):
    monkeypatch.setattr("sys.executable", "/a b/python")
    found = fill_command("{run} system writing 3 where={scratch}", 'program "p"', scratch=Path("/s"))
    assert found[:3] == ["/a b/python", "-s", "-S"]
    assert found[-4:] == ["system", "writing", "3", "where=/s"]
    for wrong, told in (("{cc} x", "'cc' is not a setting; expected "), ("{work[0]} x", "")):
        line = refusal(fill_command, wrong, 'program "p"', work=3)
        assert line.startswith(f'program "p": {told}')
        assert "{run}" in line
