"""Running one program of transactions, looking at the kernel meanwhile, and spoiling a run on purpose."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
from data.measure.kernel_counts import Numbers, Program, descendants
from data.measure.perf_stat import Counting
from data.measure.session import WORKLOADS

CHANGE, PEAK = ".change", ".peak"
PROGRAM, GROUP, PERF = "process.", "group.", "perf."
#: Processor time of the program, in milliseconds per second: from its control group where there is one.
BUSY = "process.busy"
PEAKED = (
    *("cpu.user", "cpu.system", "cpu.idle", "cpu.iowait", "stat.ctxt", "stat.intr", "stat.processes"),
    *("vmstat.pgfault", "vmstat.pgfree", "vmstat.pgalloc_normal", "vmstat.pgpgout", "vmstat.nr_dirtied"),
    *("softirq.SCHED", "softirq.RCU", "irq.RES", "irq.LOC", "disk.writes", "pressure.cpu_some"),
)
#: A last interval is too short for a peak if it is a smaller share of the one before.
SHORT = 0.5
PLAIN_LEVELS = ("level_Threads", "level_files", "level_avg")
#: Units of what a program or its control group counts, other than plain numbers.
PROGRAM_UNITS = {
    **dict.fromkeys(("user", "system", "wait", "run"), "ms"),
    **dict.fromkeys(("read_volume", "write_volume", "disk_read", "disk_written"), "KiB"),
    "resident": "MiB",
}


@dataclass(frozen=True)
class Look:
    """What was read at one moment, ``at`` in seconds of any clock.

    ``machine``, ``program`` and ``group`` are counts, ``levels`` are levels of the machine and
    ``program_levels`` those of the program.
    """

    at: float
    machine: Numbers
    program: Numbers
    group: Numbers
    levels: Numbers
    program_levels: Numbers


def rates(looks: Sequence[Look], perf: Mapping[str, float], transactions: int) -> Numbers:
    """Return the raw metrics of a run."""
    first, last = looks[0], looks[-1]
    seconds = last.at - first.at
    per = float(transactions) if transactions else np.nan
    found = _growth(first.machine, last.machine, seconds)
    steps = [
        _growth(before.machine, after.machine, after.at - before.at)
        for before, after in pairwise(_whole(looks))
    ]
    found |= {f"{name}{PEAK}": max(step[name] for step in steps) for name in PEAKED if name in found}
    levels = _growth(first.levels, last.levels, seconds)
    found |= {f"{name}{CHANGE}": value for name, value in levels.items()}
    for name, values in _by_name(look.program for look in looks).items():
        found[f"{PROGRAM}{name}"] = (max(values) - first.program.get(name, 0.0)) / per
    found |= {f"{GROUP}{name}": value for name, value in _growth(first.group, last.group, seconds).items()}
    for name, values in _by_name(look.program_levels for look in looks).items():
        found[f"{PROGRAM}{name}"] = float(np.mean(values))
    found |= {f"{PERF}{event}": count / per for event, count in perf.items()}
    found[BUSY] = _busy(found, per / seconds)
    return found


def _by_name(looks: Iterable[Numbers]) -> dict[str, list[float]]:
    """Return by name what there was at each look that had it."""
    found: dict[str, list[float]] = {}
    for look in looks:
        for name, value in look.items():
            found.setdefault(name, []).append(value)
    return found


def _whole(looks: Sequence[Look]) -> list[Look]:
    """Return the looks whose intervals tell a peak: a last one that is much shorter joins the one before.

    A program ends at any time, and clocks of the kernel tick every few milliseconds.
    """
    if len(looks) <= len(("first", "last")):
        return list(looks)
    *before, late, last = looks
    short = last.at - late.at < SHORT * (late.at - before[-1].at)
    return [*before, last] if short else [*before, late, last]


def _growth(before: Numbers, after: Numbers, seconds: float) -> Numbers:
    return {name: (value - before.get(name, 0.0)) / seconds for name, value in after.items()}


def _busy(found: Numbers, transactions_per_second: float) -> float:
    kinds = ("user", "system")
    if all(f"{GROUP}{kind}_usec" in found for kind in kinds):
        return sum(found[f"{GROUP}{kind}_usec"] for kind in kinds) / 1000
    return sum(found[f"{PROGRAM}{kind}"] for kind in kinds) * transactions_per_second


def unit(name: str) -> str:
    """Return the unit of a raw metric."""
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
        known = PROGRAM_UNITS.get(kind, "1")
        return known if known == "MiB" else f"{known}/txn"
    return f"{kernel_counts.unit(name.removesuffix(CHANGE).removesuffix(PEAK))}/s"


def signed(name: str) -> bool:
    """Tell whether a raw metric may be negative."""
    return name.endswith(CHANGE)


#: Of our programs in Python.
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": "0"}
#: Seconds that a competitor may take to start.
LIMIT = 60.0
#: How much of every processor a heavy program takes.
HEAVY = (0.5, 0.7, 0.9)
#: A run that is to be killed is not made again with an earlier moment than that, in seconds.
EARLIEST = 1e-3


@dataclass(frozen=True)
class Order:
    """What to run.

    A ``quota`` of the processor is 1 for a program that may have all of it. After ``moment`` seconds the run
    is made ``invalid``, if it is one of those kinds; a heavy program takes the share ``heavy``. The program
    has the variables ``environment`` beside ours, and ``limit`` seconds to end.
    """

    work: Work
    quota: float = 1.0
    invalid: str = ""
    moment: float = 0.0
    heavy: float = HEAVY[0]
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: float = TimeLimits.FIRST

    @property
    def place(self) -> str:
        """What an error names."""
        return f'workload "{next(iter(self.work.units))}"'


@dataclass(frozen=True)
class Outcome:
    """What came of it: ``elapsed`` seconds, transactions done, raw metrics, and the share that others used.

    That is of the processor that the program was pinned to; nobody asks of a run that is made invalid.
    """

    elapsed: float
    transactions: int
    metrics: dict[str, float]
    foreign: float


class Bench:
    """A machine with its means to run, count and spoil programs, which are pinned to processor `cpu`.

    It is looked at every `interval` seconds; perf counts the `events`, if there are any. ``missing`` has,
    by the name of a cause or a kind of invalid run, why it cannot be made here.
    """

    def __init__(self, cpu: int, interval: float, events: Sequence[str]) -> None:
        self.cpu, self.interval, self.events = cpu, interval, events
        self.missing: dict[str, str] = {}
        self._quota: Quota | None = None
        if why_no_groups():
            self.missing[BACKWARDS] = why_no_groups()
        try:
            self._quota = Quota()
            if not self._quota.apart:
                self.missing[QUOTA] = "control groups of version 2 count and bound in one"
        except OSError as exc:
            self.missing[QUOTA] = f"no control group for processor time ({exc})"
        self._competition = Competition(HEAVY)
        # what the programs of earlier runs have used: a service counts on from request to request
        self._counted: Mapping[str, float] = {}
        self._keeper = ExitStack()
        self._keep_events()

    def __enter__(self) -> Self:
        return self

    def _keep_events(self) -> None:
        """Count all events of a program that sleeps: enabling a tracepoint that nobody counts takes long."""
        if not self.events:
            return
        scratch = self._keeper.enter_context(tempfile.TemporaryDirectory(prefix="perfjudge-"))
        # it ends when we do, whatever ends us
        sleeper = Talking(["cat"], "events")
        self._keeper.callback(sleeper.end)
        counting = Counting([sleeper.pid], self.events, 5.0, Path(scratch) / "perf.csv")
        self._keeper.callback(counting.close)
        counting.ready()

    def __exit__(self, *_: object) -> None:
        self._keeper.close()
        self._competition.close()
        if self._quota is not None:
            self._quota.close()

    def run(self, order: Order) -> Outcome:
        """Run `order` once."""
        with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch, ExitStack() as stack:
            started = _Started(order, Path(scratch), self.cpu)
            stack.callback(started.end)
            started.expect(b"r")
            counting = self._counting(started.pid, Path(scratch), stack)
            if self._quota is not None and order.quota < 1:
                self._quota.limit(order.quota)
                self._quota.add(started.pid)
            program = Program(started.pid)
            if counting is not None:
                counting.ready()
                counting.enable()
            looks = [self._look(started, program), *self._watch(started, order, program, stack)]
            self._counted = looks[-1].group
            perf: dict[str, float] = {}
            if counting is not None:
                totals = counting.stop().drop(columns="t_seconds").sum(min_count=1)
                perf = {str(event): float(count) for event, count in totals.items()}
            done, begin, end = Progress.read(started.progress)
            if order.invalid == KILLED and done >= order.work.transactions and order.moment > EARLIEST:
                # it was quicker than its calibration, and nothing was left to be killed
                return self.run(replace(order, moment=order.moment / 2))
            metrics = rates(looks, perf, done)
            # the share of the program's processor that was neither idle nor its own
            idle = sum(metrics[name] for name in ("cpu.idle", "cpu.iowait", BUSY)) / 1000
            foreign = 0.0 if order.invalid else max(0.0, 1 - idle)
            return Outcome((end or started.seen) - begin, done, metrics, round(foreign, 4))

    def _counting(self, pid: int, scratch: Path, stack: ExitStack) -> Counting | None:
        if not self.events:
            return None
        counting = Counting(list(descendants(pid)), self.events, self.interval, scratch / "perf.csv")
        stack.callback(counting.close)
        return counting

    def _look(self, started: _Started, program: Program, *, between: bool = False) -> Look:
        """Look at everything; between the first and the last look nobody needs the machine's levels."""
        counts_so_far = started.counted.counts() if started.counted is not None else {}
        group = {name: count + self._counted.get(name, 0.0) for name, count in counts_so_far.items()}
        at, counts = time.perf_counter(), kernel_counts.counts(self.cpu)
        levels = {} if between else kernel_counts.levels(self.cpu)
        return Look(at, counts, program.counts(), group, levels, program.levels())

    def _watch(self, started: _Started, order: Order, program: Program, stack: ExitStack) -> Iterator[Look]:
        """Let the program go, look every `interval` until it is done, and spoil the run on the way."""
        spoil = self._spoiler(started, order, stack)
        begin, tick, spoiled = time.perf_counter(), 1, not order.invalid
        started.say(b"g")
        while True:
            now = time.perf_counter() - begin
            due = tick * self.interval
            if not spoiled and now >= order.moment:
                spoil()
                spoiled = True
            wait = due if spoiled else min(due, order.moment)
            if started.done(max(0.0, wait - now)):
                yield self._look(started, program)
                return
            now = time.perf_counter() - begin
            if now >= due:
                tick += 1
                yield self._look(started, program, between=True)
            if now > order.limit:
                raise TimedOutError.after(order.limit, order.place)

    def _spoiler(self, started: _Started, order: Order, stack: ExitStack) -> Callable[[], None]:
        def count_anew() -> None:
            # from 0 again, as when a service is restarted
            started.regroup()
            self._counted = {}

        if order.invalid == DISTURBED:
            running = self._competition.running(order.heavy)
            return lambda: stack.enter_context(running)
        return {KILLED: started.stop, BACKWARDS: count_anew}.get(order.invalid, lambda: None)


class Competition:
    """One stopped program for each processor and share, that is let run around a repetition."""

    def __init__(self, shares: Sequence[float]) -> None:
        self._programs: dict[float, list[Talking]] = {}
        for share in shares:
            self._programs[share] = [_competitor(cpu, share) for cpu in sorted(os.sched_getaffinity(0))]

    @contextmanager
    def running(self, share: float) -> Iterator[None]:
        """Take `share` of every processor while the block runs."""
        programs = self._programs[share]
        with ExitStack() as stack:
            for program in programs:
                stack.callback(program.send, signal.SIGSTOP)
                program.send(signal.SIGCONT)
            yield

    def close(self) -> None:
        """End the competitors."""
        for programs in self._programs.values():
            for program in programs:
                program.end()


def _competitor(cpu: int, share: float) -> Talking:
    place = f"competitor on processor {cpu}"
    program = Talking([sys.executable, "-I", "-S", str(WORKLOADS), "compete", str(cpu), str(share)], place)
    if not program.heard(LIMIT):
        raise program.failed()
    program.send(signal.SIGSTOP)
    return program


class _Started(Talking):
    """A program of `data.matrices.programs` that is set up.

    ``seen`` is when it was last heard or ended; ``counted`` the group whose counts are its own.
    """

    def __init__(self, order: Order, scratch: Path, cpu: int) -> None:
        self.progress = scratch / "progress"
        self.progress.write_bytes(PROGRESS.pack(0, 0, 0))
        self._killed, self.seen, self._word = False, 0.0, b""
        command = _command({"work": order.work, "progress": str(self.progress)})
        environment = {**ENVIRONMENT, **order.environment}
        super().__init__(command, order.place, scratch, cpu=cpu, environment=environment)
        self.counted = self.group if isinstance(self.group, Group) else None

    def expect(self, word: bytes) -> None:
        """Wait until the program says `word`."""
        if not self.done(TimeLimits.FIRST) or self._word != word:
            raise self.failed()

    def done(self, seconds: float) -> bool:
        """Wait until the program says something or ends, for some seconds; tell whether it has."""
        word = self.heard(seconds)
        if word is None:
            return False
        self._word, self.seen = word, time.monotonic()
        if not word and not self._killed:
            raise self.failed()
        return True

    def regroup(self) -> None:
        """Put it into a new control group."""
        if self.counted is not None:
            self.counted = Group(within=self.counted)
            for pid in descendants(self.pid):
                with suppress(OSError):
                    self.counted.add(pid)

    def stop(self) -> None:
        """Kill it and all it started before it is done."""
        self._killed = True
        self.kill()


def calibrate(name: str, seconds: float, cpu: int) -> float:
    """Return what `data.matrices.programs.calibrate` does, measured on processor `cpu`."""
    place = f'unit "{name}"'
    command = _command({"calibrate": name, "seconds": seconds})
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch:
        done = execute(command, place, Path(scratch), TimeLimits.FIRST, cpu=cpu, environment=ENVIRONMENT)
    done.require(place)
    return float(done.last_line)


def _command(asked: dict[str, Any]) -> list[str]:
    return [sys.executable, "-S", "-m", "data.matrices.programs", json.dumps(asked)]
