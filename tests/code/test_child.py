import math
import os
import select
import sys
import time
import tracemalloc
from contextlib import suppress

import pytest

from data.errors import InputError
from data.fingerprints.collect import MeasuredRun, PlannedRun
from data.measure.child import KEPT, LINE, Child, Talking, TimeLimits, execute
from data.measure.kernel_counts import ProcessTree, is_running
from data.measure.session import Journal, Session, repeat_while_disturbed
from tests.seen import Seen

OUTPUT = 2**26


@pytest.mark.parametrize(
    "program",
    [f"head -c {OUTPUT} /dev/zero | tr '\\0' x", f"yes a line | head -c {OUTPUT}"],
    ids=["one line", "many lines"],
)
def test_long_output_is_truncated_with_a_note(program):
    tracemalloc.start()
    try:
        done = execute(["sh", "-c", program], "x")
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()
    assert len(done.output) < 2 * KEPT + 100
    assert len(done.last_line) <= LINE + 3
    assert f"\n... {OUTPUT - 2 * KEPT:,} bytes are left out here ...\n" in done.output


def test_time_limits_are_ten_times_the_slowest_first_run():
    limits = TimeLimits()
    assert limits.limit_for("a") == 300
    for seconds in (0.1, 9.0, 4.0, 1.0, 1.0, 50.0):
        limits.record_duration("a", seconds)
    limits.record_duration("b", 0.1)
    assert [limits.limit_for(name) for name in "abc"] == [90, 30, 300]
    assert TimeLimits(7).limit_for("a") == 7


def test_a_second_interrupt_kills_a_stubborn_program(monkeypatch):
    monkeypatch.setattr("data.measure.child.GRACE", 60)
    program = Talking(["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], "x")
    assert program.read_byte(60)
    asleep, begin = time.sleep, time.monotonic()

    def interrupted(seconds):
        monkeypatch.setattr(time, "sleep", asleep)
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program.end()
    assert program.code == -9
    assert time.monotonic() - begin < 30


def test_a_failing_or_missing_program_is_reported_in_one_line(tmp_path):
    child = Child(["sh", "-c", "echo first; echo no luck >&2; exit 3"], "here", tmp_path)
    child.wait()
    with pytest.raises(InputError, match=r"^here: exit code 3 \(no luck\)$"):
        child.require_success()
    with pytest.raises(InputError, match=r"^here: needs the program 'no-such', which is not installed$"):
        Child(["no-such"], "here")


def test_pinned_programs_leave_their_whole_output_in_their_directory(tmp_path):
    cpu = max(os.sched_getaffinity(0))
    command = f"{sys.executable} -c 'import os; print(*os.sched_getaffinity(0))'; echo $TMPDIR $X >&2"
    done = execute(["sh", "-c", command], "x", tmp_path, cpu=cpu, environment={"X": "y"})
    assert (done.output, done.last_line) == (f"{cpu}\n{tmp_path} y\n", f"{tmp_path} y")
    assert (tmp_path / "output").read_text() == done.output


def test_programs_with_names_cut_within_a_letter_are_counted(tmp_path):
    # the kernel cuts names to 15 bytes
    program = tmp_path / ("a" * 14 + "€")
    program.symlink_to("/bin/sleep")
    child = Child([str(program), "60"], "x")
    try:
        tree = ProcessTree(child.pid)
        assert is_running(child.pid)
        assert tree.counts()["minor_faults"] > 0
        assert tree.levels()["level_Threads"] == 1
    finally:
        child.end()


def test_output_of_an_interactive_program_is_read_to_its_end():
    program = Talking(["sh", "-c", "read word; echo $word"], "x")
    assert program.read_byte(0) is None
    program.send_message(b"a\n")
    assert [program.read_byte(60) for _ in range(3)] == [b"a", b"\n", b""]
    assert program.end() == program.end() == 0


def test_a_program_on_a_missing_processor_is_refused_and_ended(tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(InputError, match=r"^here: cannot use processor 4095 \(.*\)$"):
        Child(["sh", "-c", f"echo $$ > '{pid}'; sleep 77"], "here", cpu=4095)
    if pid.exists() and (number := pid.read_text()):
        with suppress(ProcessLookupError):
            assert select.select([os.pidfd_open(int(number))], [], [], 30)[0]


PLAN = [PlannedRun("", "stressor", "cpu", 1, repetition) for repetition in range(1, 6)]


@pytest.fixture
def journal(tmp_path, monkeypatch):
    monkeypatch.setattr("data.measure.session.PATIENCE", 0)
    return Journal.open_or_create(tmp_path / "journal.jsonl", {}, MeasuredRun)


def rate(task, value):
    return MeasuredRun(*task.journal_key, "2026-11-21T00:00:00+00:00", value, "", 0.0)


def test_a_disturbed_batch_is_repeated_as_a_whole(journal):
    shares, batches, seen = iter([0.5, 0.4, 0.6, 0.0, 0.0, 0.0]), [], Seen()

    def make(tasks):
        batches.append([task.repetition for task in tasks])
        return [rate(task, len(batches)) for task in tasks], next(shares)

    Session(journal, seen, "rates", 0.1, math.inf).measure_missing(PLAN, make, batch=2)
    assert batches == [[1, 2]] * 4 + [[3, 4], [5]]
    assert [entry.value for entry in journal.entries] == [4, 4, 5, 5, 6]
    assert [line[:2] for line in seen.lines] == [(0, 5)] * 4 + [(2, 5), (4, 5), (5, 5)]


def test_a_failing_session_keeps_its_earlier_measurements(journal):
    def make(tasks):
        if tasks[0].repetition == 3:
            raise InputError("broken")
        return [rate(tasks[0], 1.0)], 0.0

    with pytest.raises(InputError, match="broken"), Session(journal, Seen(), "rates") as session:
        session.measure_missing(PLAN, make)
    again = Journal.open_or_create(journal.path, {}, MeasuredRun)
    assert [task.repetition for task in Session(again, Seen(), "rates").runs_to_measure(PLAN)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("shares", "attempts", "made", "told"),
    [
        ([0.1], 3, 0, []), ([0.5], 1, 0, []), ([0.5, 0.1], 3, 1, ["50%"]),
        ([0.5, 0.3, 0.4], 3, 1, ["50%", "30%"]),
    ],
)  # fmt: skip
def test_the_quietest_of_some_attempts_is_kept(shares, attempts, made, told, monkeypatch):
    monkeypatch.setattr("data.measure.session.PATIENCE", 0)
    trials, waits = iter(enumerate(shares)), []
    assert repeat_while_disturbed(lambda: next(trials), 0.2, attempts, waits.append) == (made, shares[made])
    assert waits == [f"waiting: others use {share} of the machine" for share in told]
