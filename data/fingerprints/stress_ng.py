"""Running the stressors of stress-ng and reading the rates that it reports."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from data.fingerprints.suite import FingerprintSuite
from data.measure.child import Finished, TimedOutError, execute, shortened
from data.measure.machine import Disturbance

#: Seconds that a stressor may take to start and to end beyond the time it is given, before it is killed.
PATIENCE = 60.0
RATE = "bogo-ops-per-second-real-time"
_PREFIX = re.compile(r"^stress-ng: \w+:\s+\[\d+\] ")


@dataclass(frozen=True)
class PlannedStressor:
    """One stressor to run: on one thread (1) or all (0)."""

    stressor: str
    threads: int
    repetition: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells one from another."""
        return self.stressor, self.threads, self.repetition

    @property
    def told(self) -> str:
        """The stressor, for people."""
        return self.stressor


@dataclass(frozen=True)
class Rate(PlannedStressor):
    """The rate of a task in bogo operations per second; ``problem`` says why there is none.

    ``at`` is a UTC time, ``foreign`` the share of the machine that others used meanwhile.
    """

    at: str
    rate: float | None
    problem: str
    foreign: float


def available() -> frozenset[str]:
    """Return the stressors that this stress-ng has.

    Raises
    ------
    InputError
        If stress-ng is not installed or does not say.
    """
    done = execute(["stress-ng", "--stressors"], "stressors")
    done.require("stress-ng --stressors")
    return frozenset(done.output.split())


def run(task: PlannedStressor, suite: FingerprintSuite) -> Rate:
    """Run one stressor; a stressor that does nothing, fails or hangs has no rate."""
    at, watch = datetime.now(UTC).isoformat(), Disturbance()
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch:
        rate, problem = measured(task, suite, Path(scratch))
    return Rate(**asdict(task), at=at, rate=rate, problem=problem, foreign=round(watch.share(), 4))


def measured(
    task: PlannedStressor,
    suite: FingerprintSuite,
    scratch: Path,
    wrap: Callable[[list[str]], list[str]] = list,
) -> tuple[float | None, str]:
    """Run a stressor, whose command `wrap` may constrain; return its rate, or why it has none."""
    report = scratch / "report.yaml"
    limit = suite.timeout or suite.seconds + PATIENCE
    try:
        done = execute(wrap(command(task, suite.seconds, report)), "fingerprint", scratch, limit)
    except TimedOutError as exc:
        return None, exc.problem
    rate = reported(report)
    problem = why_no_rate(task.stressor, done) if rate is None or done.code else ""
    return (None if problem else rate), problem


def command(task: PlannedStressor, seconds: int, report: Path) -> list[str]:
    """Return the command; stress-ng itself takes 0 threads for all."""
    return [
        *("stress-ng", f"--{task.stressor}", str(task.threads), "--timeout", str(seconds)),
        *("--metrics", "--yaml", str(report), "--temp-path", str(report.parent)),
        *("--no-rand-seed", "--oomable"),
    ]


def reported(report: Path) -> float | None:
    """Return the rate in the YAML that stress-ng wrote; None where there is none or it is 0."""
    try:
        content = yaml.safe_load(report.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return None
    metrics = content.get("metrics") if isinstance(content, dict) else None
    rate = metrics[0].get(RATE) if metrics else None
    return float(rate) if isinstance(rate, int | float) and rate > 0 else None


def why_no_rate(stressor: str, done: Finished) -> str:
    """Say why a stressor has no rate, in stress-ng's words where it has some."""
    if not done.code:
        return "did nothing"
    lines = [_PREFIX.sub("", line) for line in done.output.strip().splitlines()]
    about = (line for line in lines if stressor in line and not line.startswith("dispatching"))
    said = shortened(next(about, _PREFIX.sub("", done.last_line)))
    return f"ended with exit code {done.code} ({said})"
