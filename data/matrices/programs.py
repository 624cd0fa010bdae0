"""Programs whose transactions are counted: ``python -m data.matrices.programs '{"workload": ...}'``.

A program sets itself up, says ``r`` on standard output, waits for a byte on standard input, does its
transactions and says ``d``. Between transactions it runs the defect that the version has, if any. What it has
done so far lies in a file of three doubles (`Progress`), so that a program that is killed leaves it behind.
Imports are where they are used, because starting up takes time.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.matrices.defects import DEFECTS
from data.matrices.workloads import WORKLOADS
from data.measure.workloads import Units, repeat

#: Transactions done, begin and end by the monotonic clock.
PROGRESS = struct.Struct("=ddd")


class Progress:
    """Transactions done, begin and end, in a file that others may read."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._pages = mmap.mmap(file.fileno(), PROGRESS.size)

    def write(self, done: float, begin: float, end: float) -> None:
        """Say how far the program is."""
        PROGRESS.pack_into(self._pages, 0, done, begin, end)

    @staticmethod
    def read(path: Path) -> tuple[int, float, float]:
        """Return transactions done, begin and end (0 until then)."""
        done, begin, end = PROGRESS.unpack(path.read_bytes())
        return int(done), begin, end


def run(
    workload: str, transactions: int, units: float, *, defect: str, amount: float, progress: Path
) -> None:
    """Do `transactions`, each of `units`, and with each `amount` units of the defect.

    Units need not be whole: what is left over goes to the next transaction.
    """
    do = WORKLOADS[workload]()
    spoil = repeat(DEFECTS[defect]()) if defect in DEFECTS else None
    shown = Progress(progress)
    with _started():
        begin = time.monotonic()
        # one that is killed in its first transaction has begun, too
        shown.write(0, begin, 0)
        for number in range(transactions):
            do(int((number + 1) * units) - int(number * units))
            if spoil is not None:
                spoil(int((number + 1) * amount) - int(number * amount))
            shown.write(number + 1, begin, 0)
        shown.write(transactions, begin, time.monotonic())


@contextmanager
def _started() -> Iterator[None]:
    """Wait to be started, and after the block to be ended."""
    os.write(1, b"r")
    os.read(0, 1)
    yield
    os.write(1, b"d")
    os.read(0, 1)


def calibrate(workload: str, seconds: float) -> dict[str, float]:
    """Return the seconds that a unit of the workload and of each defect takes, each from about `seconds`."""
    do = WORKLOADS[workload]()
    costs = {"unit": _cost(do, seconds)}
    for name, make in DEFECTS.items():
        costs[name] = _cost(repeat(make()), seconds / 4)
    return costs


def _cost(do: Units, seconds: float) -> float:
    do(1)
    count, took = 1, 0.0
    while took < seconds / 2:
        begin = time.perf_counter()
        do(count)
        took = time.perf_counter() - begin
        if took < seconds / 2:
            count = max(count + 1, int(count * min(20.0, seconds / max(took, 1e-6))))
    return took / count


def main(arguments: list[str]) -> None:
    """Run, or calibrate, as the JSON on the command line says."""
    import json

    asked = json.loads(arguments[0])
    if "calibrate" in asked:
        sys.stdout.write(json.dumps(calibrate(asked["workload"], asked["calibrate"])))
    else:
        run(**asked | {"progress": Path(asked["progress"])})
    sys.stdout.flush()
    # children and threads end with us
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
