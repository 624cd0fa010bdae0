"""Programs of our own whose work is counted in exact units: ``python workloads.py NAME WORK``.

Twice the units is twice the work, so extra work of x % slows the program down by exactly x % of its own time,
as the NADDS parameter of seed 003, section 6.2, does for STREAM. Imports are where they are used, because
starting up counts as real time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

Unit = Callable[[], object]
Units = Callable[[int], object]


def repeat(unit: Unit) -> Units:
    """Return what does a number of units, one after the other."""

    def run(count: int) -> None:
        for _ in range(count):
            unit()

    return run


def sort() -> Units:
    """Sort 800 numbers."""
    import random

    numbers = random.Random(1).sample(range(10**6), 800)
    return repeat(lambda: sorted(numbers))


def hashing() -> Units:
    """SHA-256 of 64 KiB."""
    import hashlib

    block = bytes(65536)
    return repeat(lambda: hashlib.sha256(block).digest())


def text() -> bytes:
    """Return 8 KiB to compress."""
    return b"".join(b"%d squared is %d;" % (i, i * i) for i in range(500))[:8192]


def compression() -> Units:
    """Deflate 8 KiB of text."""
    import zlib

    plain = text()
    return repeat(lambda: zlib.compress(plain, 6))


def json_text() -> Units:
    """Write and read a nested JSON document of about 4 KiB."""
    import json

    document = [{"id": i, "name": f"row {i}", "values": [i, i / 7, None, True]} for i in range(50)]
    return repeat(lambda: json.loads(json.dumps(document)))


def matrix() -> Units:
    """Multiply two 80 x 80 matrices of doubles."""
    # Python is started without site-packages, which only this workload needs.
    import site

    site.main()
    import numpy as np

    left = np.random.default_rng(1).random((80, 80))
    return repeat(lambda: left @ left)


def memory_copy(size: int = 2 << 20) -> Units:
    """Copy `size` bytes from one buffer to another."""
    source, target = memoryview(bytes(size)), memoryview(bytearray(size))

    def copy() -> None:
        target[:] = source

    return repeat(copy)


def sqlite() -> Units:
    """Update and read ten rows of an in-memory table in one transaction."""
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("create table account (id integer primary key, balance integer)")
    connection.executemany("insert into account values (?, 0)", [(i,) for i in range(1000)])

    def transaction() -> None:
        connection.execute("begin")
        for i in range(0, 1000, 100):
            connection.execute("update account set balance = balance + 1 where id = ?", (i,))
            connection.execute("select balance from account where id = ?", (i,)).fetchone()
        connection.execute("commit")

    return repeat(transaction)


def regex() -> Units:
    """Find all dates in 4 KiB of log text."""
    import re

    text = "".join(f"2018-05-{i % 28 + 1:02d} host{i} took {i * 7} ms\n" for i in range(130))
    pattern = re.compile(r"(\d{4})-(\d{2})-(\d{2}) (\w+) took (\d+) ms")
    return repeat(lambda: pattern.findall(text))


def file_io() -> Units:
    """Write 64 KiB to a file at its start and read them back."""
    import tempfile

    block = bytes(65536)

    def run(count: int) -> None:
        with tempfile.TemporaryFile(buffering=0) as handle:
            for _ in range(count):
                handle.seek(0)
                handle.write(block)
                handle.seek(0)
                handle.read(65536)

    return run


def hand_over() -> Units:
    """Hand a token from one thread to another and back, twice."""
    import threading

    def run(count: int) -> None:
        ping, pong = threading.Semaphore(0), threading.Semaphore(0)

        def answer() -> None:
            for _ in range(2 * count):
                ping.acquire()
                pong.release()

        other = threading.Thread(target=answer)
        other.start()
        for _ in range(2 * count):
            ping.release()
            pong.acquire()
        other.join()

    return run


def dictionary() -> Units:
    """Count 1,000 words in a hash table."""
    words = [f"word{i * i % 211}" for i in range(1000)]

    def count() -> None:
        counts: dict[str, int] = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1

    return repeat(count)


def recursion() -> Units:
    """Compute the 13th Fibonacci number by naive recursion."""

    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)  # noqa: PLR2004

    return repeat(lambda: fibonacci(13))


WORKLOADS: dict[str, Callable[[], Units]] = {
    "sort": sort,
    "hashing": hashing,
    "compression": compression,
    "json": json_text,
    "matrix": matrix,
    "memory-copy": memory_copy,
    "sqlite": sqlite,
    "regex": regex,
    "file-io": file_io,
    "hand-over": hand_over,
    "dictionary": dictionary,
    "recursion": recursion,
}


def compete(cpu: int, share: float) -> None:
    """Keep processor `cpu` busy for `share` of every few milliseconds, until killed or orphaned."""
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
    """Do some units of a workload, or compete."""
    if arguments[0] == "compete":
        compete(int(arguments[1]), float(arguments[2]))
    WORKLOADS[arguments[0]]()(int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
