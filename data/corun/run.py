"""Run programs at the same time, each pinned to a processor, and count their events."""

from __future__ import annotations

import os
import select
import shlex
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from data.corun.tables import AND
from data.errors import InputError
from data.measure import kernel_counts
from data.measure.child import Child, TimedOutError, TimeLimits
from data.measure.groups import Group
from data.measure.kernel_counts import CPU_TIMES, ProcessTree
from data.measure.machine import Disturbance
from data.measure.perf_stat import Counting
from data.measure.session import Count, CountedSuite, fill_command, read_suite, require_unique
from data.tables.documents import Section

INTERRUPTS = ("LOC", "RES", "CAL", "TLB")
SOFTIRQS = ("TIMER", "SCHED", "RCU", "HRTIMER", "BLOCK", "NET_RX")
VMSTAT = (
    *("pgpgin", "pgpgout", "pgfree", "pgactivate", "pgdeactivate", "pgfault", "pgmajfault", "pgreuse"),
    *("nr_dirtied", "nr_written", "numa_hit", "thp_fault_alloc", "thp_split_pmd", "unevictable_pgs_culled"),
)
#: Names of events by the names of the kernel's counts.
EVENTS = {
    **{f"cpu.{kind}": f"cpu-{kind}-ms" for kind in CPU_TIMES},
    **{f"stat.{name}": f"system-{name}" for name in ("intr", "ctxt", "processes")},
    **{f"irq.cpu.{name}": f"cpu-interrupts-{name}" for name in INTERRUPTS},
    **{f"softirq.cpu.{name}": f"cpu-softirqs-{name}" for name in SOFTIRQS},
    **{f"vmstat.{name}": f"system-{name.replace('_', '-')}" for name in ("pgalloc", *VMSTAT)},
}


def kernel_event_counts(tree: ProcessTree, cpu: int, group: Group | None) -> dict[str, float]:
    """Return the counts so far, by event, of a program, of its processor `cpu` and of the machine.

    `tree` and `group` are the program's processes and its control group (None: not counted). Names begin with
    ``process-``, ``group-``, ``cpu-`` (of `cpu`) or ``system-``; those of times end with the unit (``-ms``,
    ``-usec``, ``-ns``).
    """
    counts = {f"process-{name}": count for name, count in tree.counts().items()}
    if group is not None:
        counts |= {f"group-{name}": count for name, count in group.counts().items()}
    events = {name.replace("_", "-"): count for name, count in counts.items()}
    processor = kernel_counts.processor_counts(cpu) | kernel_counts.interrupt_counts(cpu)
    # the programs may run with a niceness
    processor["cpu.user"] += processor.pop("cpu.nice")
    memory = kernel_counts.memory_numbers()
    allocated = sum(count for name, count in memory.items() if name.startswith("vmstat.pgalloc_"))
    kernel = {**processor, "vmstat.pgalloc": allocated, **memory}
    return events | {EVENTS[name]: count for name, count in kernel.items() if name in EVENTS}


#: Time limit of stress-ng in seconds, longer than that of any run.
UNENDING = 86400


class CorunTask(Section):
    """A program with a fixed amount of work.

    ``work`` bogo operations of a ``stressor`` of stress-ng with its ``options``, ``work`` units of a
    ``workload``, or any ``command``. A workload is a program of ``data/suites/programs``: its module, its
    name and options, such as "language sorting size=800". ``group`` is a description.
    """

    name: str
    group: str
    stressor: str | None = None
    workload: str | None = None
    options: tuple[str, ...] = ()
    work: Count = 1
    command: tuple[str, ...] = ()

    def command_words(self, report: Path) -> list[str]:
        """Return the command; stress-ng writes its metrics to `report` and temporary files to its folder."""
        if self.command:
            return list(self.command)
        if self.workload is not None:
            module, name, *options = self.workload.split()
            words = " ".join(["{site}", module, name, str(self.work), *options])
            return fill_command(words, f'task "{self.name}"', scratch=shlex.quote(str(report.parent)))
        stressor = f"--{self.stressor}"
        return [
            *("stress-ng", stressor, "1", f"{stressor}-ops", str(self.work)),
            *self.options,
            *("--metrics-brief", "--yaml", str(report), "--temp-path", str(report.parent)),
            *("--no-rand-seed", "--timeout", str(UNENDING)),
        ]


class CorunSuite(CountedSuite):
    """A measurement of co-runs.

    Each of the ``tasks`` runs alone ``solo`` times; every combination of ``together`` tasks, with repetition
    of tasks, runs at the same time on as many processors. ``repeat`` combinations, drawn with ``seed``, are
    measured twice.
    """

    kind: Literal["corun"]
    together: Annotated[int, Field(ge=2)] = 2
    solo: Count = 5
    repeat: Annotated[int, Field(ge=0)] = 0
    events: Annotated[tuple[str, ...], Field(min_length=1)]
    tasks: Annotated[tuple[CorunTask, ...], Field(min_length=1)]


def load_suite(path: Path) -> CorunSuite:
    """Return the parameters of a measurement in a YAML file; InputError with file, key and value if invalid.

    InputError, too, if the file cannot be read, a task or event occurs twice, a task has not exactly one of
    stressor, workload and command, or the name of a task contains ``+``.
    """
    suite = read_suite(CorunSuite, path)
    for task in suite.tasks:
        place = f'task "{task.name}"'
        if sum(bool(kind) for kind in (task.stressor, task.workload, task.command)) != 1:
            raise InputError("names a stressor, a workload or a command, one of them", file=path, place=place)
        if AND in task.name:
            raise InputError(f'must be without "{AND}", which joins names', file=path, place=place)
    require_unique([task.name for task in suite.tasks], "task", path)
    require_unique(suite.events, "event", path)
    return suite


#: Starts a program in the stopped state, to pin and watch it before it begins.
STOPPED = ("sh", "-c", 'kill -STOP $$; exec "$@"', "sh")
RESIDENT = "process-resident-mib-s"


@dataclass(frozen=True)
class TaskRun:
    """One run of a task, from the start of its program to its end.

    ``counts`` has the count of each event over the whole run, None where not measured; ``samples`` has one
    row per interval: its end in seconds since the start, then the counts within the interval.
    """

    task: str
    cpu: int
    seconds: float
    events: list[str]
    counts: list[float | None]
    samples: list[list[float | None]]


@dataclass(frozen=True)
class Counters:
    """The available counters: perf's events, the interval in seconds, and control groups.

    ``lacking`` are the events that perf cannot count here; ``ungrouped`` is the reason why control groups
    cannot be used, empty if they can.
    """

    events: Sequence[str]
    interval: float
    lacking: Sequence[str] = ()
    ungrouped: str = ""


def other_tasks(tasks: Sequence[str]) -> list[list[str]]:
    """Return for each of `tasks` the sorted list of the others; equal tasks at other places are included."""
    return [sorted([*tasks[:place], *tasks[place + 1 :]]) for place in range(len(tasks))]


def run_together(
    tasks: Sequence[CorunTask], cpus: Sequence[int], means: Counters, limits: TimeLimits | None = None
) -> tuple[list[TaskRun], float]:
    """Run `tasks` at the same time, each on its processor, restarting them until each has ended once.

    Return the first run of each task, in their order, and the share of the machine that others used (0 to 1).
    `cpus` has one processor per task, else ValueError; `means` are the counters to use. `limits` has the time
    limits of first runs by the task's name, and records how long these runs take; without `limits`, each
    limit is 300 s. Restarted runs have no limit; programs that still run at the end, or when an error is
    raised, are killed. InputError if perf or a program is missing, or a program fails (exit code not 0), also
    when restarted; TimedOutError if the first run of a task exceeds its limit.
    """
    limits = limits or TimeLimits()
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch, ExitStack() as stack:
        measured = []
        for number, (task, cpu) in enumerate(zip(tasks, cpus, strict=True)):
            place = Path(scratch) / str(number)
            place.mkdir()
            program = _Program(task, cpu, place)
            stack.callback(program.end)
            watched = _Watched(program, means, limits.limit_for(task.name))
            stack.callback(watched.counting.close)
            measured.append(watched)
        for watched in measured:
            watched.counting.wait_until_ready()
        for watched in measured:
            watched.counting.start_counting()
        watch = Disturbance()
        for watched in measured:
            watched.start_counting()
        restarted = _wait_for_ends(measured, means.interval, stack)
        seconds = sum(ProcessTree(program.pid).processor_seconds() for program in restarted)
        foreign = watch.foreign_share(seconds)
    runs = [watched.task_run() for watched in measured]
    for run in runs:
        limits.record_duration(run.task, run.seconds)
    return runs, round(foreign, 4)


def _wait_for_ends(measured: list[_Watched], interval: float, stack: ExitStack) -> list[_Program]:
    """Count every `interval` until all programs have ended; return the restarted programs that still run."""
    begin, tick = time.perf_counter(), 1
    first = {watched.program.ended: watched for watched in measured}
    running = {ended: watched.program for ended, watched in first.items()}
    poll = select.poll()
    for ended in running:
        poll.register(ended, select.POLLIN)
    while first:
        ready = poll.poll(max(0.0, (begin + tick * interval - time.perf_counter()) * 1000))
        now = time.perf_counter()
        for ended, _ in ready:
            poll.unregister(ended)
            if ended in first:
                first.pop(ended).stop_counting(now)
        for ended, _ in ready:
            program = running.pop(ended)
            program.require_success()
            if first:
                restarted = _Program(program.task, program.cpu, program.scratch)
                stack.callback(restarted.end)
                restarted.send_signal(signal.SIGCONT)
                running[restarted.ended] = restarted
                poll.register(restarted.ended, select.POLLIN)
        if now >= begin + tick * interval:
            tick = int((now - begin) / interval) + 1
            for watched in first.values():
                if now - watched.start > watched.limit:
                    raise TimedOutError.from_limit(watched.limit, f'task "{watched.program.task.name}"')
                watched.record_counts(time.perf_counter())
    return list(running.values())


class _Program(Child):
    """A program that is started in the stopped state, on its processor."""

    def __init__(self, task: CorunTask, cpu: int, scratch: Path) -> None:
        self.task, self.cpu, self.scratch = task, cpu, scratch
        command = [*STOPPED, *task.command_words(scratch / "report.yaml")]
        super().__init__(command, f'task "{task.name}"', scratch, cpu=cpu)
        os.waitpid(self.pid, os.WUNTRACED)


class _Watched:
    """A program whose events are counted until it ends."""

    def __init__(self, program: _Program, means: Counters, limit: float) -> None:
        self.program, self.limit, self.start = program, limit, 0.0
        self._resident, self._snapshots = 0.0, list[tuple[float, dict[str, float]]]()
        self._group = program.group if isinstance(program.group, Group) else None
        self._tree = ProcessTree(program.pid)
        output = program.scratch / "perf.csv"
        self.counting = Counting([program.pid], means.events, means.interval, output)

    def start_counting(self) -> None:
        self.record_counts(0.0)
        self.start = time.perf_counter()
        self.program.send_signal(signal.SIGCONT)

    def record_counts(self, now: float) -> None:
        seconds = now - self.start
        counts = kernel_event_counts(self._tree, self.program.cpu, self._group)
        if self._snapshots:
            self._resident += (seconds - self._snapshots[-1][0]) * self._tree.resident_mebibytes
        self._snapshots.append((seconds, counts | {RESIDENT: self._resident}))

    def stop_counting(self, now: float) -> None:
        """Count for the last time, before the program is reaped."""
        self.record_counts(now)
        self._perf = self.counting.stop_counting()

    def task_run(self) -> TaskRun:
        ends, counts = zip(*self._snapshots, strict=True)
        within = interval_counts(pd.DataFrame(counts, index=ends), self._perf)
        total, *samples = (
            # whole counts; clocks in milliseconds to 10 us
            [None if np.isnan(value) else round(float(value), 5) for value in row]
            for row in [within.sum(min_count=1), *within.reset_index().itertuples(index=False)]
        )
        task, cpu = self.program.task.name, self.program.cpu
        return TaskRun(task, cpu, ends[-1], list(within.columns), total, samples)


def interval_counts(snapshots: pd.DataFrame, perf: pd.DataFrame) -> pd.DataFrame:
    """Return the counts within the intervals between `snapshots`, one row each, indexed by their ends.

    `snapshots` has counts so far, indexed by seconds since the start. Apparent drops are transient: a child's
    counts are missing until it is reaped, so the running maximum is used. `perf` has a row of counts per
    interval, with its end ``t_seconds``; its columns are appended, each row added to the interval with the
    nearest end; NaN where none is nearest.
    """
    within = snapshots.cummax().diff().iloc[1:]
    ends, times = within.index.to_numpy(), perf["t_seconds"].to_numpy()
    nearest = ends[np.abs(times[:, None] - ends[None, :]).argmin(axis=1)]
    return within.join(perf.drop(columns="t_seconds").groupby(nearest).sum(min_count=1))
