"""Defects that a version of a program may have; two more lie outside it: extra work and a quota.

Those of `DEFECTS` cost time for each unit; those of `STANDING` are there from the start and cost hardly any.

Imports are where they are used, because starting up takes time.
"""

from __future__ import annotations

import mmap
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


def write_behind() -> Unit:
    """Write 16 KiB to a growing file, which stays in the page cache."""
    handle = os.open(f"{os.environ['TMPDIR']}/behind", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    block = bytes(4 * PAGE)
    return lambda: os.write(handle, block)


def keep_memory(size: float) -> None:
    """Keep `size` times 16 MiB of touched memory."""
    pages = mmap.mmap(-1, max(1, int(size * 4096)) * PAGE)
    for at in range(0, len(pages), PAGE):
        pages[at] = 1
    KEPT.append(pages)


def wake_up(size: float) -> None:
    """Wake up a thread `size` times 500 times a second, which does nothing."""
    import threading

    def woken() -> None:
        while True:
            time.sleep(2e-3 / size)

    threading.Thread(target=woken, daemon=True).start()


def keep_processes(size: float) -> None:
    """Start `size` times ten processes, at least one, that sleep until we end."""
    for _ in range(max(1, round(size * 10))):
        if os.fork() == 0:
            time.sleep(LONG)
            os._exit(0)


def keep_files(size: float) -> None:
    """Keep `size` times 50 files open, at least one."""
    KEPT.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(max(1, round(size * 50))))


#: What nobody frees.
KEPT: list[object] = []
#: Seconds that no run takes.
LONG = 60.0
#: Defects that are set up before the first transaction, of a size.
STANDING: dict[str, Callable[[float], None]] = {
    "kept-memory": keep_memory,
    "wakeups": wake_up,
    "idle-processes": keep_processes,
    "open-files": keep_files,
}

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
    "writes-behind": write_behind,
    "extra-processes": helper,
    # the last to calibrate: starting a process costs more with much memory
    "leak": leak,
}
