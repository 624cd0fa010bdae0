"""Workloads whose work is counted in exact units, as a program: ``python workloads.py NAME WORK``.

Time is proportional to the units, so that x % additional work slows the program down by exactly x % of its
own time, like the parameter NADDS of STREAM in the quiho paper (section 6.2). Imports are inside
functions to keep the startup short, which counts as real time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

Unit = Callable[[], object]
Units = Callable[[int], object]


def repeat_unit(unit: Unit) -> Units:
    """Return a function of n that calls `unit` n times."""

    def run_units(count: int) -> None:
        for _ in range(count):
            unit()

    return run_units


def sort_workload() -> Units:
    """Return a function of n that sorts 800 numbers, n times."""
    import random

    numbers = random.Random(1).sample(range(10**6), 800)
    return repeat_unit(lambda: sorted(numbers))


def hash_workload() -> Units:
    """Return a function of n that computes SHA-256 of 64 KiB, n times."""
    import hashlib

    block = bytes(65536)
    return repeat_unit(lambda: hashlib.sha256(block).digest())


def sample_text() -> bytes:
    """Return 8 KiB of text to compress."""
    return b"".join(b"%d squared is %d;" % (i, i * i) for i in range(500))[:8192]


def compression_workload() -> Units:
    """Return a function of n that deflates 8 KiB of text, n times."""
    import zlib

    plain = sample_text()
    return repeat_unit(lambda: zlib.compress(plain, 6))


def json_workload() -> Units:
    """Return a function of n that writes and reads a nested JSON document of about 4 KiB, n times."""
    import json

    document = [{"id": i, "name": f"row {i}", "values": [i, i / 7, None, True]} for i in range(50)]
    return repeat_unit(lambda: json.loads(json.dumps(document)))


def matrix_workload() -> Units:
    """Return a function of n that multiplies two 80 x 80 matrices of doubles, n times."""
    # Python was started without site-packages; only this workload needs them
    import site

    site.main()
    import numpy as np

    left = np.random.default_rng(1).random((80, 80))
    return repeat_unit(lambda: left @ left)


def memory_copy_workload(size: int = 2 << 20) -> Units:
    """Return a function of n that copies `size` bytes from one buffer to another, n times."""
    source, target = memoryview(bytes(size)), memoryview(bytearray(size))

    def copy_buffer() -> None:
        target[:] = source

    return repeat_unit(copy_buffer)


def sqlite_workload() -> Units:
    """Return a function of n that updates and reads ten rows in one transaction in memory, n times."""
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("create table account (id integer primary key, balance integer)")
    connection.executemany("insert into account values (?, 0)", [(i,) for i in range(1000)])

    def run_transaction() -> None:
        connection.execute("begin")
        for i in range(0, 1000, 100):
            connection.execute("update account set balance = balance + 1 where id = ?", (i,))
            connection.execute("select balance from account where id = ?", (i,)).fetchone()
        connection.execute("commit")

    return repeat_unit(run_transaction)


def regex_workload() -> Units:
    """Return a function of n that finds all dates in 4 KiB of log text, n times."""
    import re

    text = "".join(f"2018-05-{i % 28 + 1:02d} host{i} took {i * 7} ms\n" for i in range(130))
    pattern = re.compile(r"(\d{4})-(\d{2})-(\d{2}) (\w+) took (\d+) ms")
    return repeat_unit(lambda: pattern.findall(text))


def file_io_workload() -> Units:
    """Return a function of n that writes 64 KiB at the start of a file and reads them back, n times."""
    import tempfile

    block = bytes(65536)

    def run_units(count: int) -> None:
        with tempfile.TemporaryFile(buffering=0) as handle:
            for _ in range(count):
                handle.seek(0)
                handle.write(block)
                handle.seek(0)
                handle.read(65536)

    return run_units


def hand_over_workload() -> Units:
    """Return a function of n that hands a token from one thread to another and back, 2 n times."""
    import threading

    def run_units(count: int) -> None:
        ping, pong = threading.Semaphore(0), threading.Semaphore(0)

        def return_tokens() -> None:
            for _ in range(2 * count):
                ping.acquire()
                pong.release()

        other = threading.Thread(target=return_tokens)
        other.start()
        for _ in range(2 * count):
            ping.release()
            pong.acquire()
        other.join()

    return run_units


def dictionary_workload() -> Units:
    """Return a function of n that counts 1,000 words in a hash table, n times."""
    words = [f"word{i * i % 211}" for i in range(1000)]

    def count_words() -> None:
        counts: dict[str, int] = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1

    return repeat_unit(count_words)


def recursion_workload() -> Units:
    """Return a function of n that computes the 13th Fibonacci number by naive recursion, n times."""

    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)  # noqa: PLR2004

    return repeat_unit(lambda: fibonacci(13))


WORKLOADS: dict[str, Callable[[], Units]] = {
    "sort": sort_workload,
    "hashing": hash_workload,
    "compression": compression_workload,
    "json": json_workload,
    "matrix": matrix_workload,
    "memory-copy": memory_copy_workload,
    "sqlite": sqlite_workload,
    "regex": regex_workload,
    "file-io": file_io_workload,
    "hand-over": hand_over_workload,
    "dictionary": dictionary_workload,
    "recursion": recursion_workload,
}


def occupy_processor(cpu: int, share: float) -> None:
    """Keep processor `cpu` busy for `share` (0 to 1) of every 4 ms, until killed or orphaned."""
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
    """Run ``NAME WORK``, units of a workload, or occupy a processor: ``compete CPU SHARE``."""
    if arguments[0] == "compete":
        occupy_processor(int(arguments[1]), float(arguments[2]))
    WORKLOADS[arguments[0]]()(int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
