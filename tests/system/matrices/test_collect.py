"""Measuring matrices with real programs, real defects and runs that are really made invalid."""

import json
import os
import shutil
import signal
from collections import Counter

import psutil
import pytest
import yaml

from data.errors import InputError
from data.matrices import collect as matrix_collector
from data.matrices import formats as matrix_formats
from data.matrices import suite as matrix_suite
from data.matrices.collect import plan_runs
from data.matrices.programs import Work
from data.matrices.run import Bench, Order
from data.matrices.tables import MatrixTables
from data.matrices.validity import decide_validity
from data.measure.session import Screen
from tests.system.measuring import collected, commands, interrupt, kept, own_groups

SUITE = {
    "kind": "matrix", "name": "tiny", "seed": 4, "seconds": 0.2, "interval": 0.05, "foreign": 1.0,
    "versions": 1, "runs": 2, "abnormal": 0.5, "invalid": 0.35, "sizes": [0.5], "causes": ["extra-syscalls"],
    "invalid_kinds": ["killed", "wrong-count"], "events": ["task-clock", "page-faults", "no-such-event"],
    "cases": [
        {"name": "words", "group": "sorting", "workload": "sort-words", "transactions": 40},
        {"name": "pings", "group": "pipes", "workload": "ping-pong", "transactions": 30},
    ],
}  # fmt: skip
#: What is calibrated first: two workloads, a defect, and what that is tried beside.
COSTS = 4
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")


@pytest.fixture(scope="module")
def bench():
    with Bench(max(os.sched_getaffinity(0)), 0.05, ["task-clock", "page-faults"]) as bench:
        yield bench


@pytest.fixture
def sort(bench):
    """Make one run of a small workload."""

    def made(**how):
        spoiled = {name: how.pop(name) for name in tuple(how) if name in Work._fields}
        work = Work({"sort-words": how.pop("words", 60.0)}, 40)
        return bench.run_once(Order(work._replace(**spoiled), **how))

    return made


@needs_perf
def test_an_interrupted_and_killed_measurement_resumes_and_ends_as_matrices(tmp_path):
    path, out = tmp_path / "suite.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(SUITE))
    told, code, interrupted = interrupt(path, out, signal.SIGINT, COSTS + 2)
    assert code == 130
    assert "perf cannot count no-such-event" in told
    done = kept(out) - COSTS
    assert f"kept {done} runs; start again to resume" in told
    suite = matrix_suite.load_suite(path)
    whole = len(plan_runs(suite, suite.causes, suite.invalid_kinds))
    assert 2 <= done < whole
    assert len(MatrixTables.read(out).runs) == done
    assert own_groups(interrupted) == []
    _, code, killed = interrupt(path, out, signal.SIGKILL, COSTS + done + 1)
    assert code == -signal.SIGKILL
    collected(path, out, killed)
    assert kept(out) == COSTS + whole

    tables = matrix_formats.read("tables", [out]).tables
    runs = tables.runs.set_index("run_id")
    causes = tables.causes.set_index("run_id")
    assert len(runs) == whole
    assert runs.groupby(["pair_id", "side"])["valid"].sum().tolist() == [2] * 4
    assert (runs["abnormal"].fillna(value=False).to_numpy().sum(), len(tables.summary_metrics)) == (2, 17)
    assert len(tables.raw_metrics) > 60
    assert (tables.metrics["unit"] != "").all()
    # the rules find just those that were made invalid
    decided = decide_validity(tables, 0.5).runs.set_index("run_id")
    left_out = decided.loc[~decided["kept"], "reason"].to_dict()
    assert set(left_out) == set(causes.index[causes["invalid_kind"] != ""]), left_out
    # the defect is in the counts of the kernel
    spoiled = runs[runs["abnormal"].fillna(value=False).to_numpy(bool)]
    baseline = runs[runs["valid"] & (runs["side"] == "baseline")]
    sound = baseline[baseline["pair_id"] == spoiled["pair_id"].iloc[0]]
    assert spoiled["summary_io_calls"].min() > sound["summary_io_calls"].max() + 10


@needs_perf
def test_a_run_executes_and_counts_its_order(sort):
    run = sort()
    assert run.transactions == 40
    assert run.metrics["perf.task-clock"] == pytest.approx(run.metrics["process.run"], rel=0.3)
    assert run.metrics["process.run"] * 40 / 1000 <= 1.1 * run.elapsed
    assert run.metrics["process.resident"] > 5
    # other programs on the machine only ever add time
    seconds = [min(sort(words=words).metrics["process.run"] for _ in range(3)) for words in (60.0, 240.0)]
    assert seconds[1] > 1.5 * seconds[0]


@needs_perf
def test_a_run_that_ends_before_it_is_made_invalid_is_repeated(sort, bench):
    assert sort(invalid="killed", moment=30.0).transactions < 40
    if "counter-backwards" not in bench.missing:
        assert sort(invalid="counter-backwards", moment=30.0).metrics["group.user_usec"] < 0


@needs_perf
@pytest.mark.parametrize(
    ("defect", "how", "words", "metric", "least"),
    [
        ("extra-syscalls", "amount", 60.0, "process.read_calls", 18),
        ("extra-memory", "amount", 60.0, "perf.page-faults", 28.8),
        ("extra-switches", "amount", 60.0, "process.voluntary_switches", 0.9),
        ("lock-contention", "amount", 60.0, "process.voluntary_switches", 0.9),
        ("extra-fsync", "amount", 60.0, "process.disk_written", 3.6),
        # these run from the start
        ("wakeups", "defect_size", 200.0, "process.voluntary_switches", 0.1),
        ("idle-processes", "defect_size", 200.0, "process.level_Threads", 8),
    ],
)
def test_a_defect_changes_the_expected_metrics(sort, defect, how, words, metric, least):
    spoiled, plain = sort(words=words, defect=defect, **{how: 1.0}), sort(words=words)
    assert spoiled.metrics[metric] - plain.metrics[metric] >= least


@needs_perf
def test_paced_transactions_wait_and_poll_less_under_load(sort):
    period = 0.01
    few, many = (
        [sort(words=words, period=period, polling=True) for _ in range(3)] for words in (10.0, 200.0)
    )
    assert min(run.elapsed for run in (*few, *many)) >= 40 * period
    assert min(run.metrics["process.run"] for run in many) > min(run.metrics["process.run"] for run in few)
    # other programs on the machine only ever prevent polls
    polls = [max(run.metrics["process.voluntary_switches"] for run in runs) for runs in (few, many)]
    assert polls[1] < polls[0]
    assert sort(words=10.0, period=period).metrics["process.voluntary_switches"] < 3


def competing_seconds():
    """Return the processor time of the programs that disturb runs, by the share that they take."""
    seconds = Counter()
    for program in psutil.Process().children():
        _, found, options = program.cmdline()[-1].partition('{"compete": ')
        if found:
            seconds[json.loads(options.removesuffix("}"))[1]] += sum(program.cpu_times()[:2])
    return seconds


@needs_perf
def test_requested_invalid_runs_are_really_made(sort, bench):
    before, whole = competing_seconds(), sort()
    assert competing_seconds() == before
    killed = sort(invalid="killed", moment=whole.elapsed / 2)
    assert killed.transactions < 40
    disturbed = sort(invalid="disturbed", moment=0.02, heavy=0.9)
    assert disturbed.transactions == 40
    assert "process.wait" in disturbed.metrics
    # how long the run waited for them depends on other programs of this machine, too
    competed = {share: seconds - before[share] for share, seconds in competing_seconds().items()}
    assert [share for share, seconds in competed.items() if seconds > 0] == [0.9]
    if "counter-backwards" not in bench.missing:
        fallen = sort(invalid="counter-backwards", moment=whole.elapsed / 2)
        assert fallen.metrics["group.user_usec"] < 0
        assert sort().metrics["group.user_usec"] > 0


@needs_perf
def test_a_program_killed_in_its_first_transaction_has_begun(bench):
    run = bench.run_once(Order(Work({"sort-words": 50_000.0}, 1), invalid="killed", moment=0.1))
    assert run.transactions == 0
    assert 0.05 < run.elapsed < 5


def test_a_failing_program_is_named_and_its_processes_end(bench):
    with pytest.raises(InputError, match=r'^workload "no-such": exit code 1 \(KeyError: \'no-such\'\)$'):
        bench.run_once(Order(Work({"no-such": 1.0}, 1)))
    assert not [command for command in commands(os.getpid()) if "no-such" in " ".join(command)]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_measuring_runs_on_another_processor_than_the_measured(tmp_path, monkeypatch):
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(SUITE | {"events": []}))
    cpus, found = os.sched_getaffinity(0), []

    def look(*_, **__):
        found.append(os.sched_getaffinity(0))
        programs = [words for words in commands(os.getpid()) if "data.matrices.programs" in words]
        found.append({json.loads(words[4])["compete"][0] for words in programs})

    monkeypatch.setattr("data.matrices.collect.measure", look)
    # nothing is measured instead
    with Screen() as screen, pytest.raises(InputError, match="nothing could be measured"):
        matrix_collector.collect(tmp_path / "suite.yaml", tmp_path / "out", screen)
    assert found == [cpus - {max(cpus)}, cpus]
    assert os.sched_getaffinity(0) == cpus
