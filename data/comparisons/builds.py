"""Build and run the programs of a suite, and estimate how much slower a changed build is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from data.comparisons.suite import Suite, SuiteOperation, Variant
from data.errors import InputError
from data.measure.child import TimedOutError, TimeLimits, execute
from data.measure.session import fill_command


@dataclass(frozen=True)
class BuildRun:
    """Samples of one run of a build.

    Runs with the purpose "reference" hold pairs: `values` of the changed build, `unchanged` of the unchanged
    one. `at` is the UTC time when the run began (ISO 8601), `foreign` the share of the processor time that
    other processes used meanwhile.
    """

    operation: str
    change: str
    purpose: str
    number: int
    threads: int
    at: str
    foreign: float
    values: tuple[float, ...]
    unchanged: tuple[float, ...] = ()

    @property
    def journal_key(self) -> tuple[str, str, str, int, int]:
        """The fields that identify a run: operation, change, purpose, number and threads."""
        return self.operation, self.change, self.purpose, self.number, self.threads


@dataclass(frozen=True)
class Trial:
    """Result of trying out a build before it is measured.

    `work` is the number of units of work per sample, `samples` the number of samples per run, `noise` the
    relative standard deviation of a sample. `problem` is the reason why this machine cannot measure the
    build, or empty.
    """

    operation: str
    change: str
    work: int
    samples: int
    noise: float
    problem: str


#: Slowdowns from here on are regressions that an engineer would act on.
FAIL_FROM = 0.03
#: Slowdowns up to here are not regressions; those between `PASS_UP_TO` and `FAIL_FROM` get no label.
PASS_UP_TO = 0.02
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Slowdown:
    """A changed build's slowdown, 0.1 for 10 %, with its confidence interval; positive is worse.

    It is changed / unchanged - 1 for values of which lower is better, unchanged / changed - 1 for rates.
    `pairs` is the number of pairs of samples.
    """

    share: float
    low: float
    high: float
    pairs: int

    @classmethod
    def from_samples(cls, unchanged: ArrayLike, changed: ArrayLike, better: str) -> Slowdown:
        """Estimate the slowdown: the median of the Walsh averages of log ratios (Hodges and Lehmann, 1963).

        The interval is that of Wilcoxon's signed-rank test, which does not assume normal noise and is robust
        to outliers. `unchanged` and `changed` have shape (n_pairs,) and positive values, measured in turn.
        `better` is "lower" or "higher", the direction of better values.
        """
        sign = 1.0 if better == "lower" else -1.0
        logs = sign * np.log(np.asarray(changed, float) / np.asarray(unchanged, float))
        first, second = np.triu_indices(len(logs))
        walsh = np.sort((logs[first] + logs[second]) / 2)
        cut = _ranks_outside(len(logs))
        share, low, high = np.expm1([np.median(walsh), walsh[cut], walsh[-1 - cut]]).tolist()
        return cls(share, low, high, len(logs))

    @property
    def status(self) -> str | None:
        """The label: "fail" if low >= `FAIL_FROM`, "pass" if high <= `PASS_UP_TO`, else None."""
        if self.low >= FAIL_FROM:
            return "fail"
        return "pass" if self.high <= PASS_UP_TO else None


def _ranks_outside(pairs: int) -> int:
    ways = np.ones(1)
    for rank in range(1, pairs + 1):
        ways = np.r_[ways, np.zeros(rank)] + np.r_[np.zeros(rank), ways]
    below = np.cumsum(ways) / ways.sum()
    return max(0, int(np.searchsorted(below, (1 - CONFIDENCE) / 2, side="right")) - 1)


#: Noise above which a sample does twice the work.
SCATTERED = 0.02
#: Samples per run: (largest noise of one sample, number of samples).
ENOUGH = ((0.005, 5), (0.015, 7), (0.04, 10), (1e9, 13))


class Workshop:
    """Builds and runs the programs of a suite, in the subdirectory ``scratch`` of `directory`.

    Programs also write files there that must be on a disk; others are in ``/dev/shm`` where possible.
    `limits` are by default those that follow from ``suite.timeout``.
    """

    def __init__(self, suite: Suite, directory: Path, limits: TimeLimits | None = None) -> None:
        self._suite, self._limits = suite, limits or TimeLimits(suite.timeout)
        self._disk = (directory / "scratch").resolve()
        memory = Path("/dev/shm")  # noqa: S108 - a file system in memory
        self._memory = memory if os.access(memory, os.W_OK) else self._disk
        self._disk.mkdir(parents=True, exist_ok=True)

    def measure_sample(self, variant: Variant, work: int, threads: int) -> float:
        """Run a build once; return the value of its metric (units: `data.comparisons.suite.METRICS`).

        The build does `work` units of work; a build with injected work does ``work * (1 + variant.extra)``.
        InputError with the last line of the output if the program is missing or fails; TimedOutError if it
        runs too long.
        """
        operation, place = variant.operation, f'operation "{variant.operation.name}"'
        done_work = max(1, round(work * (1 + variant.extra)))
        values: dict[str, object] = {"memory": self._memory, "disk": self._disk, **variant.settings}
        values |= {"work": done_work, "threads": threads}
        values["out"] = self._built_program(operation, values)
        command = fill_command(operation.command, place, **values)
        same, more = (operation.name, work, threads), 1 + max(0.0, variant.extra)
        limit = self._limits.limit_for(same) * more
        done = execute(command, place, self._disk, limit, environment=_environment_variables(values))
        done.require_success()
        self._limits.record_duration(same, done.seconds / more)
        if operation.metric == "real":
            return done.seconds
        if operation.metric == "cpu":
            return sum(done.used)
        try:
            seconds, *peak = map(float, done.last_line.split())
            value = {"seconds": seconds, "rate": work / seconds}.get(operation.metric)
            return peak[0] if value is None else value
        except (ValueError, IndexError, ZeroDivisionError) as exc:
            raise InputError(f"{done.last_line!r} is not a value of {operation.metric}", place=place) from exc

    def choose_work_per_sample(self, operation: SuiteOperation) -> Trial:
        """Return a trial of the unchanged build: its work per sample, noise and samples per run.

        If the program fails or runs too long, they are 0, and `problem` is the reason.
        """
        build, (fewest, largest) = operation.unchanged_build, self._suite.samples
        try:
            work = operation.work or self._choose_work(build, self._suite.seconds)
            noise = self._estimate_noise(build, work)
            if noise > SCATTERED and operation.work is None:
                work *= 2
                noise = self._estimate_noise(build, work)
        except InputError as exc:
            return Trial(operation.name, "", 0, 0, 0.0, str(exc))
        samples = next(number for limit, number in ENOUGH if noise <= limit)
        return Trial(operation.name, "", work, min(largest, max(fewest, samples)), noise, "")

    def _choose_work(self, build: Variant, seconds: float) -> int:
        self._sample_seconds(build, 1)  # warm the caches
        work, took = 1, self._sample_seconds(build, 1)
        while took < seconds / 2 and work < 10**9:
            work = round(work * min(50.0, max(2.0, seconds / max(took, 1e-5))))
            took = self._sample_seconds(build, work)
        took = min(took, self._sample_seconds(build, work))
        return max(1, round(work * seconds / took))

    def _sample_seconds(self, build: Variant, work: int) -> float:
        value = self.measure_sample(build, work, build.operation.threads[0])
        return work / value if build.operation.metric == "rate" else value

    def _estimate_noise(self, build: Variant, work: int) -> float:
        values = np.array([self.measure_sample(build, work, build.operation.threads[0]) for _ in range(6)])
        middle = np.median(values)
        return float(1.4826 * np.median(abs(values - middle)) / middle)

    def _built_program(self, operation: SuiteOperation, values: Mapping[str, object]) -> Path:
        place = f'operation "{operation.name}"'
        command = fill_command(operation.build, place, **{**values, "out": "", "work": 0})
        digest = hashlib.sha256(" ".join(command).encode())
        out = self._disk / f"built-{digest.hexdigest()[:16]}"
        if operation.build and not out.exists():
            fresh = out.with_suffix(".new")
            command = fill_command(operation.build, place, **{**values, "out": fresh})
            limit, environment = self._limits.limit_for(("build", place)), _environment_variables(values)
            try:
                execute(command, place, self._disk, limit, environment=environment).require_success()
            except TimedOutError as exc:
                # an InputError, because no run of this build can be measured
                raise InputError(f"the build {exc.problem}", place=place) from exc
            fresh.rename(out)
        return out


def _environment_variables(values: Mapping[str, object]) -> dict[str, str]:
    return {"LC_ALL": "C"} | {name: str(value) for name, value in values.items() if name.isupper()}
