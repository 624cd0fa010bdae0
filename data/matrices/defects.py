"""Defects that a version of a program may have; two more lie outside it: extra work and a quota.

Imports are where they are used, because starting up takes time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from data.matrices.workloads import PAGE, times, touch
from data.measure import workloads
from data.measure.workloads import Unit


def leak() -> Unit:
    """Keep 32 KiB that nobody frees."""
    kept: list[bytearray] = []
    return lambda: kept.append(bytearray(32768))


def contention() -> Unit:
    """Wait for a lock that another thread holds while it sleeps for 0.2 ms."""
    import threading

    lock, wanted, held = threading.Lock(), threading.Semaphore(0), threading.Semaphore(0)

    def hold() -> None:
        while True:
            wanted.acquire()
            with lock:
                held.release()
                time.sleep(2e-4)

    threading.Thread(target=hold, daemon=True).start()

    def waited() -> None:
        wanted.release()
        held.acquire()
        with lock:
            pass

    return waited


def small_buffer() -> Unit:
    """Write 2 KiB to a file through a buffer of 64 bytes."""
    handle = os.open(f"{os.environ['TMPDIR']}/buffered", os.O_CREAT | os.O_RDWR)
    part = bytes(64)

    def written() -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        for _ in range(32):
            os.write(handle, part)

    return written


def flush() -> Unit:
    """Write 4 KiB and wait until the disk has them."""
    handle = os.open(f"{os.environ['TMPDIR']}/flushed", os.O_CREAT | os.O_RDWR)
    block = bytes(PAGE)

    def flushed() -> None:
        os.pwrite(handle, block, 0)
        os.fsync(handle)

    return flushed


def poll() -> Unit:
    """Ask ten times whether something has come, in place of waiting for it."""
    import select

    reading, _writing = os.pipe()
    return times(10, select.select, [reading], [], [], 0)


def log() -> Unit:
    """Format and write a line of a log."""
    handle = os.open(f"{os.environ['TMPDIR']}/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    lines = iter(range(10**9))

    def logged() -> None:
        number = next(lines)
        words = {"request": number, "state": "done", "at": time.time(), "size": number % 977}
        os.write(handle, (" ".join(f"{key}={value!r:>20}" for key, value in words.items()) + "\n").encode())

    return logged


def helper() -> Unit:
    """Start a process that ends at once, and wait for it."""

    def started() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    return started


#: A defect sets itself up and returns one unit of it.
DEFECTS: dict[str, Callable[[], Unit]] = {
    # read a byte of zeros twenty times: a call for each byte
    "extra-syscalls": lambda: times(20, os.read, os.open("/dev/zero", os.O_RDONLY), 1),
    "extra-memory": lambda: touch(1 << 17),
    "lock-contention": contention,
    "small-buffer": small_buffer,
    "extra-fsync": flush,
    "polling": poll,
    # ask another thread and wait for its answer, twice
    "extra-switches": lambda: partial(workloads.hand_over(), 1),
    "logging": log,
    "extra-processes": helper,
    # the last to calibrate: starting a process costs more with much memory
    "leak": leak,
}
