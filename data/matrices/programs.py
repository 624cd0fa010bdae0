"""Programs whose transactions are counted: ``python -m data.matrices.programs '{"work": ...}'``.

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
from typing import NamedTuple

from data.matrices.workloads import DEFECTS, STANDING, WORKLOADS
from data.measure.workloads import Units, repeat

#: Transactions done, begin and end by the monotonic clock.
PROGRESS = struct.Struct("=ddd")
#: Seconds between two looks of a program that polls, and what rounding may lack of a whole unit.
NAP, WHOLE = 1e-4, 1e-9


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


class Work(NamedTuple):
    """What a program does.

    Each of its ``transactions`` is a number of units of each workload in ``units``, and of the ``defect``;
    units need not be whole: what is left over goes to the next transaction. Transactions begin every
    ``period`` seconds, at once where it is 0; until then it sleeps, or is ``polling``. A defect of `STANDING`
    has the size ``standing``.
    """

    units: dict[str, float]
    transactions: int
    period: float = 0.0
    polling: bool = False
    defect: str = ""
    amount: float = 0.0
    standing: float = 0.0


def run(work: Work, progress: Path) -> None:
    """Do the work, and show how far it is."""
    parts = [(WORKLOADS[name](), units) for name, units in work.units.items()]
    if work.defect in DEFECTS:
        parts.append((repeat(DEFECTS[work.defect]()), work.amount))
    if work.defect in STANDING:
        STANDING[work.defect](work.standing)
    shown, until = Progress(progress), _polled if work.polling else _slept
    with _started():
        begin = time.monotonic()
        # one that is killed in its first transaction has begun, too
        shown.write(0, begin, 0)
        for number in range(work.transactions):
            if work.period:
                until(begin + number * work.period)
            for do, units in parts:
                do(int((number + 1) * units + WHOLE) - int(number * units + WHOLE))
            shown.write(number + 1, begin, 0)
        if work.period:
            until(begin + work.transactions * work.period)
        shown.write(work.transactions, begin, time.monotonic())


def _slept(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)


def _polled(moment: float) -> None:
    while time.monotonic() < moment:
        time.sleep(NAP)


@contextmanager
def _started() -> Iterator[None]:
    """Wait to be started, and after the block to be ended."""
    os.write(1, b"r")
    os.read(0, 1)
    yield
    os.write(1, b"d")
    os.read(0, 1)


def calibrate(name: str, seconds: float) -> float:
    """Return the seconds that a unit of a workload or defect takes, found out in about `seconds`."""
    return _cost(WORKLOADS[name]() if name in WORKLOADS else repeat(DEFECTS[name]()), seconds)


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
        sys.stdout.write(repr(calibrate(asked["calibrate"], asked["seconds"])))
    else:
        run(Work(*asked["work"]), Path(asked["progress"]))
    sys.stdout.flush()
    # children and threads end with us
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
