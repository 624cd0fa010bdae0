"""Running the stressors of stress-ng and reading the rates that it reports."""

from __future__ import annotations

import re
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from data.measure.child import Finished, execute
from data.measure.disturbance import Disturbance

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


def run(task: PlannedStressor, seconds: int) -> Rate:
    """Run one stressor for `seconds`; a stressor that does nothing, fails or hangs has no rate."""
    at, watch = datetime.now(UTC).isoformat(), Disturbance()
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch:
        report = Path(scratch) / "report.yaml"
        done = execute(command(task, seconds, report), "fingerprint", Path(scratch), seconds + PATIENCE)
        rate = reported(report)
    foreign = round(watch.share(), 4)
    problem = why_no_rate(task.stressor, done) if rate is None or done.code else ""
    return Rate(**asdict(task), at=at, rate=None if problem else rate, problem=problem, foreign=foreign)


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
    if done.code < 0:
        return f"did not end within {PATIENCE:g} s of its time"
    if not done.code:
        return "did nothing"
    lines = [_PREFIX.sub("", line) for line in done.output.strip().splitlines()]
    about = (line for line in lines if stressor in line and not line.startswith("dispatching"))
    return f"ended with exit code {done.code} ({next(about, _PREFIX.sub('', done.last_line))})"
