"""Running one repetition of a real program and reading its clocks."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.errors import InputError
from data.measure.child import execute
from data.measure.suite import Operation

WORKLOADS = Path(__file__).with_name("workloads.py")


@dataclass(frozen=True)
class Clocks:
    """What one repetition took (seed 000, section 3.1).

    Attributes
    ----------
    seconds : float
        The program's own figure for its work, without its start.
    real_seconds, user_seconds, kernel_seconds : float
        Of the whole process with its children, as ``time`` reports them.
    """

    seconds: float
    real_seconds: float
    user_seconds: float
    kernel_seconds: float

    def out_of_cpu_seconds(self, threads: int) -> float:
        """Return real time x threads - (user + kernel time), the time spent waiting for a processor."""
        return self.real_seconds * threads - (self.user_seconds + self.kernel_seconds)


def run(operation: Operation, work: int, threads: int, before: Sequence[str] = ()) -> Clocks:
    """Run `operation` once.

    Parameters
    ----------
    operation : Operation
    work : int
        Units of work (bogo operations of a stressor) in all, shared among the threads.
    threads : int
    before : sequence of str
        A command that starts the program, such as one that puts it into a control group.

    Raises
    ------
    InputError
        If the program is missing or fails, with the last line it printed.
    """
    with tempfile.TemporaryDirectory(prefix="perfjudge-") as scratch:
        report = Path(scratch) / "report.yaml"
        command = [*before, *command_of(operation, work, threads, report)]
        place = f'operation "{operation.name}"'
        done = execute(command, place, Path(scratch))
        done.require(f"{place}: {command[0]}")
        return Clocks(_own_seconds(operation, report, done.output), *done.seconds)


def command_of(operation: Operation, work: int, threads: int, report: Path, limit: int = 60) -> list[str]:
    """Return the command that does `work` units (bogo operations of a stressor) of `operation`.

    stress-ng writes its metrics to `report` and temporary files beside it, and ends after `limit` seconds
    whatever it has done.
    """
    if operation.stressor is None:
        return [sys.executable, "-I", "-S", str(WORKLOADS), str(operation.workload), str(work), str(threads)]
    stressor = f"--{operation.stressor}"
    return [
        *("stress-ng", stressor, str(threads), f"{stressor}-ops", str(work)),
        *operation.options,
        *("--metrics-brief", "--yaml", str(report), "--temp-path", str(report.parent)),
        *("--no-rand-seed", "--timeout", str(limit)),
    ]


def _own_seconds(operation: Operation, report: Path, output: str) -> float:
    if operation.stressor is None:
        return float(output)
    for line in report.read_text().splitlines():
        key, _, value = line.strip().partition(": ")
        if key == "wall-clock-time":
            return float(value)
    raise InputError("stress-ng wrote no wall-clock-time", place=f'operation "{operation.name}"')
