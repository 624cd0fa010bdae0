"""Run one program of transactions, sample the kernel's counts meanwhile, and make runs invalid on purpose."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from data.matrices.programs import PROGRESS, Progress, Work
from data.matrices.suite import BACKWARDS, DISTURBED, KILLED, QUOTA
from data.measure import kernel_counts
from data.measure.child import Talking, TimedOutError, TimeLimits, execute
from data.measure.groups import Group, Quota, why_no_groups
from data.measure.kernel_counts import Numbers, ProcessTree, with_descendants
from data.measure.perf_stat import Counting

CHANGE, PEAK = ".change", ".peak"
PROGRAM, GROUP, PERF = "process.", "group.", "perf."
#: Processor time of the program in milliseconds per second, from its control group if it has one.
BUSY = "process.busy"
PEAKED = (
    *("cpu.user", "cpu.system", "cpu.idle", "cpu.iowait", "stat.ctxt", "stat.intr", "stat.processes"),
    *("vmstat.pgfault", "vmstat.pgfree", "vmstat.pgalloc_normal", "vmstat.pgpgout", "vmstat.nr_dirtied"),
    *("softirq.SCHED", "softirq.RCU", "irq.RES", "irq.LOC", "disk.writes", "pressure.cpu_some"),
)
#: The last interval is too short for a peak if it is shorter than this share of the one before.
SHORT = 0.5
PLAIN_LEVELS = ("level_Threads", "level_files", "level_avg")
#: Units of counts of a program or its control group, except plain numbers.
PROGRAM_UNITS = {
    **dict.fromkeys(("user", "system", "wait", "run"), "ms"),
    **dict.fromkeys(("read_volume", "write_volume", "disk_read", "disk_written"), "KiB"),
    "resident": "MiB",
}


@dataclass(frozen=True)
class Snapshot:
    """Counts and levels at one moment, ``at`` in seconds of any clock.

    ``machine``, ``program`` and ``group`` are counts so far; ``levels`` and ``program_levels`` are levels of
    the machine and of the program.
    """

    at: float
    machine: Numbers
    program: Numbers
    group: Numbers
    levels: Numbers
    program_levels: Numbers


def raw_metrics(snapshots: Sequence[Snapshot], perf: Mapping[str, float], transactions: int) -> Numbers:
    """Return the raw metrics of a run by name, in the units of `metric_unit`.

    Per second, they are the growth of the machine's counts, of the control group's counts (``group.``) and of
    the machine's levels (suffix ``.change``), and, for `PEAKED`, the largest growth in one interval (suffix
    ``.peak``). Per transaction, and NaN without transactions, they are the program's counts (``process.``)
    and those of `perf` (``perf.``). Others are the program's mean levels (``process.``) and ``process.busy``,
    the processor time in ms per second: that of the control group, else that of the program, which is
    computed from its time per transaction and so is also NaN without transactions. A count that the first
    snapshot lacks is 0 there. `snapshots` ascend in time, at least two.
    """
    first, last = snapshots[0], snapshots[-1]
    seconds = last.at - first.at
    per = float(transactions) if transactions else np.nan
    metrics = _growth_per_second(first.machine, last.machine, seconds)
    steps = [
        _growth_per_second(a.machine, b.machine, b.at - a.at) for a, b in pairwise(_peak_snapshots(snapshots))
    ]
    metrics |= {f"{name}{PEAK}": max(step[name] for step in steps) for name in PEAKED if name in metrics}
    metrics |= _growth_per_second(first.levels, last.levels, seconds, "{}" + CHANGE)
    for name, values in _by_name(snapshot.program for snapshot in snapshots).items():
        metrics[f"{PROGRAM}{name}"] = (max(values) - first.program.get(name, 0.0)) / per
    metrics |= _growth_per_second(first.group, last.group, seconds, GROUP + "{}")
    for name, values in _by_name(snapshot.program_levels for snapshot in snapshots).items():
        metrics[f"{PROGRAM}{name}"] = float(np.mean(values))
    metrics |= {f"{PERF}{event}": count / per for event, count in perf.items()}
    kinds = ("user", "system")
    if all(f"{GROUP}{kind}_usec" in metrics for kind in kinds):
        metrics[BUSY] = sum(metrics[f"{GROUP}{kind}_usec"] for kind in kinds) / 1000
    else:
        metrics[BUSY] = sum(metrics[f"{PROGRAM}{kind}"] for kind in kinds) * (per / seconds)
    return metrics


def _by_name(snapshots: Iterable[Numbers]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for name, value in (item for snapshot in snapshots for item in snapshot.items()):
        values.setdefault(name, []).append(value)
    return values


def _peak_snapshots(snapshots: Sequence[Snapshot]) -> Sequence[Snapshot]:
    """Leave out the last snapshot but one if it is too late for a peak.

    A program ends at any time, but the kernel updates its counts only every few milliseconds.
    """
    *before, late, last = snapshots
    is_short = before and last.at - late.at < SHORT * (late.at - before[-1].at)
    return [*before, last] if is_short else snapshots


def _growth_per_second(before: Numbers, after: Numbers, seconds: float, label: str = "{}") -> Numbers:
    return {label.format(name): (value - before.get(name, 0.0)) / seconds for name, value in after.items()}


def metric_unit(name: str) -> str:
    """Return the unit of a raw metric by its name, such as "ms/s", "KiB/txn" (per transaction) or "1".

    An unknown name is a count: "1/txn" if it begins with ``process.`` or ``perf.``, else "1/s".
    """
    if name == BUSY:
        return "ms/s"
    if name.startswith(PERF):
        return "ms/txn" if name.endswith("clock") else "1/txn"
    if name.startswith(GROUP):
        return "us/s" if name.endswith("_usec") else "1/s"
    if name.startswith(PROGRAM):
        kind = name.removeprefix(PROGRAM)
        if kind.startswith("level_"):
            return "1" if kind.startswith(PLAIN_LEVELS) else "KiB"
        plain = PROGRAM_UNITS.get(kind, "1")
        return plain if plain == "MiB" else f"{plain}/txn"
    return f"{kernel_counts.count_unit(name.removesuffix(CHANGE).removesuffix(PEAK))}/s"


def may_be_negative(name: str) -> bool:
    """Return whether a raw metric may be negative: it is the change of a level (suffix ``.change``)."""
    return name.endswith(CHANGE)


#: Environment of the measured programs.
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": "0"}
#: Seconds that a competitor may take to start.
LIMIT = 60.0
#: Shares of every processor that a heavy program may take.
HEAVY = (0.5, 0.7, 0.9)
#: Earliest moment, in seconds, at which a repeated run is made invalid.
EARLIEST = 1e-3


@dataclass(frozen=True)
class Order:
    """The run to make.

    ``quota`` is the share of the processor that the program may use, 1 without limit. ``invalid`` is the way
    in which the run is made invalid after ``moment`` seconds, empty for a valid run; a heavy program then
    takes the share ``heavy``. ``environment`` has further variables of the program; ``limit`` is its time
    limit in seconds.
    """

    work: Work
    quota: float = 1.0
    invalid: str = ""
    moment: float = 0.0
    heavy: float = HEAVY[0]
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: float = TimeLimits.FIRST

    @property
    def place_in_errors(self) -> str:
        """The name of the run in errors."""
        return f'workload "{next(iter(self.work.units))}"'


@dataclass(frozen=True)
class Outcome:
    """The result of a run: ``elapsed`` seconds, ``transactions`` done, and raw metrics by name.

    ``foreign`` is the share of the program's processor that others used, 0 for a run that was made invalid.
    """

    elapsed: float
    transactions: int
    metrics: dict[str, float]
    foreign: float


class Bench:
    """Runs, counts and disturbs programs that are pinned to processor `cpu`.

    Counts are read every `interval` seconds; perf counts the `events`, if any. ``missing`` maps causes and
    kinds of invalid runs that are impossible on this machine to the reason.
    """

    def __init__(self, cpu: int, interval: float, events: Sequence[str]) -> None:
        self.cpu, self.interval, self.events = cpu, interval, events
        self.missing = {BACKWARDS: why_no_groups()} if why_no_groups() else {}
        self._quota: Quota | None = None
        try:
            self._quota = Quota()
            if not self._quota.allows_accounting:
                self.missing[QUOTA] = "control groups of version 2 count and bound in one"
        except OSError as exc:
            self.missing[QUOTA] = f"no control group for processor time ({exc})"
        # counts of the programs of earlier runs: a service counts on from request to request
        self._counted: Mapping[str, float] = {}
        self._keeper = ExitStack()
        #: One stopped program per processor, by the share that it takes.
        self._competitors: dict[float, list[Talking]] = {}
        for share in HEAVY:
            processors = sorted(os.sched_getaffinity(0))
            self._competitors[share] = [self._start_competitor(processor, share) for processor in processors]
        if events:
            self._keep_events()

    def __enter__(self) -> Self:
        return self

    def _start_competitor(self, cpu: int, share: float) -> Talking:
        command = _program_command({"compete": [cpu, share]})
        program = Talking(command, f"competitor on processor {cpu}", environment=ENVIRONMENT)
        self._keeper.callback(program.end)
        if not program.read_byte(LIMIT):
            raise program.end_with_error()
        program.send_signal(signal.SIGSTOP)
        return program

    def _keep_events(self) -> None:
        """Count all events of a sleeping program: enabling a tracepoint that is not in use takes long."""
        scratch = self._keeper.enter_context(tempfile.TemporaryDirectory(prefix="perfjudge-"))
        # it ends when this process ends, even if it is killed
        sleeper = Talking(["cat"], "events")
        self._keeper.callback(sleeper.end)
        counting = Counting([sleeper.pid], self.events, 5.0, Path(scratch) / "perf.csv")
        self._keeper.callback(counting.close)
        counting.wait_until_ready()

    def __exit__(self, *_: object) -> None:
        self._keeper.close()
        if self._quota is not None:
            self._quota.close()

    def run_once(self, order: Order) -> Outcome:
        """Run `order` once, and return its duration, transactions and metrics.

        InputError if the program fails, TimedOutError if it exceeds ``order.limit``. A run that ends
        before it is killed, disturbed or counted anew is repeated.
        """
        with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch, ExitStack() as stack:
            started = _Started(order, Path(scratch), self.cpu)
            stack.callback(started.end)
            if not started.wait_for_message(TimeLimits.FIRST) or started.word != b"r":
                raise started.end_with_error()
            counting, perf = None, dict[str, float]()
            if self.events:
                pids = list(with_descendants(started.pid))
                counting = Counting(pids, self.events, self.interval, Path(scratch) / "perf.csv")
                stack.callback(counting.close)
            if self._quota is not None and order.quota < 1:
                self._quota.set_limit(order.quota)
                self._quota.add_process(started.pid)
            if counting is not None:
                counting.wait_until_ready()
                counting.start_counting()
            snapshots = [self._take_snapshot(started), *self._watch_program(started, stack)]
            self._counted = snapshots[-1].group
            if counting is not None:
                totals = counting.stop_counting().drop(columns="t_seconds").sum(min_count=1)
                perf = {str(event): float(count) for event, count in totals.items()}
            done, begin, end = Progress.read(started.progress)
            is_whole = done >= order.work.transactions if order.invalid == KILLED else not started.is_spoiled
            if order.invalid in {KILLED, DISTURBED, BACKWARDS} and is_whole and order.moment > EARLIEST:
                # it was faster than its calibration, and had already ended
                return self.run_once(replace(order, moment=order.moment / 2))
            metrics = raw_metrics(snapshots, perf, done)
            # the share of the program's processor that was neither idle nor used by the program
            idle = sum(metrics[name] for name in ("cpu.idle", "cpu.iowait", BUSY)) / 1000
            foreign = 0.0 if order.invalid else max(0.0, 1 - idle)
            return Outcome((end or started.seen) - begin, done, metrics, round(foreign, 4))

    def _take_snapshot(self, started: _Started, *, between: bool = False) -> Snapshot:
        """Read all counts; the levels of the machine only in the first and the last snapshot."""
        counts_so_far = started.counted.counts() if started.counted is not None else {}
        group = {name: count + self._counted.get(name, 0.0) for name, count in counts_so_far.items()}
        at, counts = time.perf_counter(), kernel_counts.machine_counts(self.cpu)
        levels = {} if between else kernel_counts.machine_levels()
        program = started.processes
        return Snapshot(at, counts, program.detailed_counts(), group, levels, program.levels())

    def _watch_program(self, started: _Started, stack: ExitStack) -> Iterator[Snapshot]:
        """Start the program, yield a snapshot every `interval` until it is done, and make the run invalid."""
        order, begin, tick = started.order, time.perf_counter(), 1
        started.send_message(b"g")
        while True:
            now = time.perf_counter() - begin
            due = tick * self.interval
            if order.invalid and not started.is_spoiled and now >= order.moment:
                self._make_invalid(started, stack)
            wait = min(due, order.moment) if order.invalid and not started.is_spoiled else due
            if started.wait_for_message(max(0.0, wait - now)):
                yield self._take_snapshot(started)
                return
            now = time.perf_counter() - begin
            if now >= due:
                tick += 1
                yield self._take_snapshot(started, between=True)
            if now > order.limit:
                raise TimedOutError.from_limit(order.limit, order.place_in_errors)

    def _make_invalid(self, started: _Started, stack: ExitStack) -> None:
        order, started.is_spoiled = started.order, True
        if order.invalid == DISTURBED:
            for competitor in self._competitors[order.heavy]:
                stack.callback(competitor.send_signal, signal.SIGSTOP)
                competitor.send_signal(signal.SIGCONT)
        elif order.invalid == KILLED:
            started.kill()
        elif order.invalid == BACKWARDS:
            # counts restart from 0, as when a service is restarted
            started.move_to_new_group()
            self._counted = {}


class _Started(Talking):
    """A program of `data.matrices.programs` that is set up.

    ``word`` is its last message, empty at its end, ``seen`` the time of that; ``counted`` is the control
    group of its counts; ``is_spoiled`` whether the run was made invalid.
    """

    def __init__(self, order: Order, scratch: Path, cpu: int) -> None:
        self.order, self.progress = order, scratch / "progress"
        self.progress.write_bytes(PROGRESS.pack(0, 0, 0))
        self.is_spoiled, self.seen, self.word = False, 0.0, b""
        command = _program_command({"work": order.work, "progress": str(self.progress)})
        environment = {**ENVIRONMENT, **order.environment}
        super().__init__(command, order.place_in_errors, scratch, cpu=cpu, environment=environment)
        self.counted = self.group if isinstance(self.group, Group) else None
        self.processes = ProcessTree(self.pid)

    def wait_for_message(self, seconds: float) -> bool:
        """Wait up to `seconds` for a message or the end of the program; return whether either came."""
        word = self.read_byte(seconds)
        if word is None:
            return False
        self.word, self.seen = word, time.monotonic()
        was_killed = self.is_spoiled and self.order.invalid == KILLED
        if not word and not was_killed:
            raise self.end_with_error()
        return True

    def move_to_new_group(self) -> None:
        if self.counted is not None:
            self.counted = Group(within=self.counted)
            for pid in with_descendants(self.pid):
                with suppress(OSError):
                    self.counted.add_process(pid)


def calibrate_unit(name: str, seconds: float, cpu: int) -> float:
    """Return the duration in seconds of a unit of the workload or defect `name`, measured on processor `cpu`.

    The measurement, in a new process, takes about `seconds`. InputError if the process fails, for example
    because `name` is unknown.
    """
    place = f'unit "{name}"'
    command = _program_command({"calibrate": name, "seconds": seconds})
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch:
        done = execute(command, place, Path(scratch), TimeLimits.FIRST, cpu=cpu, environment=ENVIRONMENT)
    done.require_success()
    return float(done.last_line)


def _program_command(options: dict[str, Any]) -> list[str]:
    return [sys.executable, "-S", "-m", "data.matrices.programs", json.dumps(options)]
