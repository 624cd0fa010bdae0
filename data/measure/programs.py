"""The commands of programs whose work is counted: stressors of stress-ng, and workloads of our own."""

from __future__ import annotations

import sys
from pathlib import Path

from data.measure.suite import Operation

WORKLOADS = Path(__file__).with_name("workloads.py")


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
