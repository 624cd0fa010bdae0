"""Programs with counted transactions: ``python -m data.matrices.programs '{"work": ...}'``.

The file with the progress remains if the program is killed. Imports are inside functions to keep the startup
short.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import NamedTuple

from data.matrices.workloads import DEFECTS, STANDING, WORKLOADS, repeat_unit

#: Transactions done, and begin and end by the monotonic clock.
PROGRESS = struct.Struct("=ddd")
#: Seconds between the polls of a polling program, and the tolerance for rounding errors of whole units.
NAP, WHOLE = 1e-4, 1e-9


class Progress:
    """Transactions done, begin and end, in a file that other processes may read."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._pages = mmap.mmap(file.fileno(), PROGRESS.size)

    def write(self, done: float, begin: float, end: float) -> None:
        """Write the progress; begin and end in seconds, 0 if unknown."""
        PROGRESS.pack_into(self._pages, 0, done, begin, end)

    @staticmethod
    def read(path: Path) -> tuple[int, float, float]:
        """Return (transactions done, begin, end) in a file of progress; monotonic seconds, 0 if unknown."""
        done, begin, end = PROGRESS.unpack(path.read_bytes())
        return int(done), begin, end


class Work(NamedTuple):
    """The work of a program.

    Each of the ``transactions`` runs a number of units of each workload (``units``), and ``amount`` units of
    the ``defect``; fractions of units are carried over to the next transaction. Transactions start every
    ``period`` seconds, or without pause if it is 0; meanwhile the program sleeps, or polls if ``polling``. A
    defect of `STANDING` has the size ``defect_size``.
    """

    units: dict[str, float]
    transactions: int
    period: float = 0.0
    polling: bool = False
    defect: str = ""
    amount: float = 0.0
    defect_size: float = 0.0


def run_work(work: Work, progress: Path) -> None:
    """Run the transactions of `work`, and write after each how many are done to the file `progress`.

    The file has three doubles (`Progress`): the transactions done, and the begin and, after the last one, the
    end (else 0) in monotonic seconds; it must exist with at least this size (OSError or ValueError
    otherwise). ``r`` is written to stdout when ready and ``d`` when done; each time, it waits for a byte on
    stdin or the end of stdin. KeyError if a workload of `work` is unknown; an unknown defect is ignored.
    """
    parts = [(WORKLOADS[name](), units) for name, units in work.units.items()]
    if work.defect in DEFECTS:
        parts.append((DEFECTS[work.defect](), work.amount))
    if work.defect in STANDING:
        STANDING[work.defect](work.defect_size)
    written = Progress(progress)
    os.write(1, b"r")
    os.read(0, 1)
    begin = time.monotonic()
    # a program that is killed in its first transaction has also begun
    written.write(0, begin, 0)
    for number in range(work.transactions):
        if work.period:
            _wait_until(begin + number * work.period, polling=work.polling)
        for unit, units in parts:
            repeat_unit(int((number + 1) * units + WHOLE) - int(number * units + WHOLE), unit)
        written.write(number + 1, begin, 0)
    if work.period:
        _wait_until(begin + work.transactions * work.period, polling=work.polling)
    written.write(work.transactions, begin, time.monotonic())
    os.write(1, b"d")
    os.read(0, 1)


def _wait_until(moment: float, *, polling: bool) -> None:
    while (left := moment - time.monotonic()) > 0:
        time.sleep(NAP if polling else left)


def calibrate_unit(name: str, seconds: float) -> float:
    """Return the seconds per unit of a workload or defect, timed for about `seconds`.

    KeyError if `name` is not in `WORKLOADS` or `DEFECTS`; defects in `STANDING` have no units.
    """
    unit = (WORKLOADS | DEFECTS)[name]()
    unit()
    count, took = 1, 0.0
    while took < seconds / 2:
        begin = time.perf_counter()
        repeat_unit(count, unit)
        took = time.perf_counter() - begin
        if took < seconds / 2:
            count = max(count + 1, int(count * min(20.0, seconds / max(took, 1e-6))))
    return took / count


def occupy_processor(cpu: int, share: float) -> None:
    """Write ``r`` to stdout; keep processor `cpu` busy for `share` of every 4 ms until killed or orphaned."""
    import ctypes
    import signal

    end_with_parent, period = 1, 0.004  # PR_SET_PDEATHSIG of linux/prctl.h
    ctypes.CDLL(None).prctl(end_with_parent, signal.SIGKILL)
    os.sched_setaffinity(0, {cpu})
    os.write(1, b"r")
    while True:
        end = time.perf_counter() + share * period
        while time.perf_counter() < end:
            pass
        time.sleep((1 - share) * period)


def main(arguments: list[str]) -> None:
    """Run, calibrate or occupy a processor, as the JSON object in ``arguments[0]`` says; end the process.

    With the key ``calibrate`` (and ``seconds``) it prints the seconds per unit of a workload or defect;
    ``compete`` lists the arguments of `occupy_processor`, ``work`` (with ``progress``) the fields of `Work`.
    """
    import json

    options = json.loads(arguments[0])
    if "calibrate" in options:
        sys.stdout.write(repr(calibrate_unit(options["calibrate"], options["seconds"])))
    elif "compete" in options:
        occupy_processor(*options["compete"])
    else:
        run_work(Work(*options["work"]), Path(options["progress"]))
    sys.stdout.flush()
    # without waiting for children and threads
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
