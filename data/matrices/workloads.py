"""Workloads and defects of transactions: functions that set up the work and return a function that does it.

Imports are inside functions to keep the startup short.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

Unit = Callable[[], object]
PAGE = 4096


def repeat_unit(count: int, call: Callable[..., object], *arguments: Any) -> None:
    """Call ``call(*arguments)`` `count` times."""
    for _ in range(count):
        call(*arguments)


def shared_program(module: str, program: str, /, **options: object) -> Callable[[], Unit]:
    """Return a function that calls `program` in ``data/suites/programs/<module>.py`` with `options`.

    Its result is a function for one unit of work. The module is imported by the call, not now.
    """

    def set_up() -> Unit:
        unit: Unit = getattr(import_module(f"data.suites.programs.{module}"), program)(**options)
        return unit

    return set_up


def dictionary_lookups() -> Unit:
    """Return a function that looks up 4,000 scattered keys of a hash table with 200,000 entries."""
    table = {number * 7919: number for number in range(200_000)}
    keys = [number * 104_729 % 200_000 * 7919 for number in range(4000)]
    return lambda: sum(table[key] for key in keys)


def buffer_checksums() -> Unit:
    """Return a function that computes CRC-32 and Adler-32 of 256 KiB."""
    import zlib

    block = bytes(range(256)) * 1024
    return lambda: zlib.crc32(block) + zlib.adler32(block)


def touch_pages(size: int) -> Unit:
    """Return a function that maps `size` bytes, writes to every page, and unmaps them."""

    def touch_all_pages() -> None:
        with mmap.mmap(-1, size) as pages:
            for at in range(0, size, PAGE):
                pages[at] = 1

    return touch_all_pages


def discard_pages() -> Unit:
    """Return a function that writes to every page of 1 MiB and releases the pages."""
    pages = mmap.mmap(-1, 1 << 20)

    def write_and_discard() -> None:
        for at in range(0, 1 << 20, PAGE):
            pages[at] = 1
        pages.madvise(mmap.MADV_DONTNEED)

    return write_and_discard


def file_renames() -> Unit:
    """Return a function that renames a file in TMPDIR and back, ten times, and then lists TMPDIR once.

    The file, ``name`` in TMPDIR, is created now, not by the function, and never removed. KeyError if the
    variable TMPDIR is not set.
    """
    name = f"{os.environ['TMPDIR']}/name"
    Path(name).touch()

    def rename_file() -> None:
        for _ in range(10):
            os.rename(name, f"{name}d")  # noqa: PTH104  a system call and little else
            os.rename(f"{name}d", name)  # noqa: PTH104
        os.listdir(os.environ["TMPDIR"])  # noqa: PTH208

    return rename_file


def _start_child(serve: Callable[[int, int], None]) -> tuple[int, int]:
    """Start a child that runs `serve`; return the descriptors to read from it and to write to it."""
    from_child, to_us = os.pipe()
    from_us, to_child = os.pipe()
    if os.fork() == 0:
        os.close(to_child)
        os.close(from_child)
        with suppress(OSError):
            serve(from_us, to_us)
        os._exit(0)
    os.close(from_us)
    os.close(to_us)
    return from_child, to_child


def _confirm_blocks(reading: int, writing: int) -> None:
    left = 0
    while block := os.read(reading, 65536):
        left += len(block)
        while left >= 1 << 18:
            os.write(writing, b"k")
            left -= 1 << 18


def bulk_pipe() -> Unit:
    """Return a function that pipes 256 KiB to a child, started now, and waits until they have been read."""
    reading, writing = _start_child(_confirm_blocks)
    block = bytes(65536)

    def send_blocks() -> None:
        for _ in range(4):
            at = 0
            while at < len(block):
                at += os.write(writing, block[at:])
        os.read(reading, 1)

    return send_blocks


def socket_pair() -> Unit:
    """Return a function that sends ten datagrams of 1 KiB to a child and reads its answers.

    The child is started now, and ends 5 s after the last datagram; then the function raises OSError.
    """
    import socket

    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    if os.fork() == 0:
        ours.close()
        other.settimeout(5)
        with suppress(OSError):
            while message := other.recv(2048):
                other.send(message[:16])
        os._exit(0)
    other.close()
    block = bytes(1024)

    def exchange_datagrams() -> None:
        for _ in range(10):
            ours.send(block)
            ours.recv(64)

    return exchange_datagrams


def hand_overs() -> Unit:
    """Return a function that hands a token to another thread, started now, and back, twice."""
    import threading

    ping, pong = threading.Semaphore(0), threading.Semaphore(0)

    def return_tokens() -> None:
        while True:
            ping.acquire()
            pong.release()

    threading.Thread(target=return_tokens, daemon=True).start()

    def hand_over() -> None:
        for _ in range(2):
            ping.release()
            pong.acquire()

    return hand_over


def thread_starts() -> Unit:
    """Return a function that starts and joins four idle threads."""
    import threading

    def start_threads() -> None:
        threads = [threading.Thread(target=int) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return start_threads


def work_queue() -> Unit:
    """Return a function that queues ten tasks for two threads, started now, and waits until they are done."""
    import queue
    import threading

    task_queue: queue.Queue[int] = queue.Queue()

    def consume_tasks() -> None:
        while True:
            sum(range(task_queue.get()))
            task_queue.task_done()

    for _ in range(2):
        threading.Thread(target=consume_tasks, daemon=True).start()

    def run_tasks() -> None:
        for _ in range(10):
            task_queue.put(200)
        task_queue.join()

    return run_tasks


#: Functions that set up a workload and return a unit of it.
WORKLOADS: dict[str, Callable[[], Unit]] = {
    "recursion": shared_program("language", "fibonacci", n=13),
    "regex": shared_program("library", "regex", size=100),
    "json": shared_program("library", "json_text", size=50),
    "lookups": dictionary_lookups,
    # read a buffer of 1 MiB once
    "read-1m": lambda: partial(bytes(1 << 20).count, 1),
    # write 256 KiB, byte by byte from a table
    "translate": lambda: partial((bytes(range(256)) * 1024).translate, bytes(reversed(range(256)))),
    "copy-2m": shared_program("system", "copying"),
    "copy-16m": shared_program("system", "copying", size=16 << 20),
    # fill and free a new buffer of 4 MiB
    "fill": lambda: partial(bytearray, 4 << 20),
    "touch": lambda: touch_pages(1 << 20),
    "discard": discard_pages,
    # create and remove 20 small mappings
    "map": lambda: partial(repeat_unit, 20, lambda: mmap.mmap(-1, PAGE).close()),
    # get the process id of the parent 200 times
    "parent": lambda: partial(repeat_unit, 200, os.getppid),
    # read the attributes of a file 50 times
    "stat": lambda: partial(repeat_unit, 50, os.stat, Path(__file__)),
    # read 512 bytes of zeros 100 times
    "zeros": lambda: partial(repeat_unit, 100, os.read, os.open("/dev/zero", os.O_RDONLY), 512),
    "make-files": shared_program("system", "making", where=None, count=10),
    "rename": file_renames,
    "rewrite": shared_program("system", "writing", where=None, block=16384),
    "ping-pong": shared_program("system", "pipes", size=8),
    "bulk-pipe": bulk_pipe,
    "datagrams": socket_pair,
    "hand-over": hand_overs,
    "start-threads": thread_starts,
    "work-queue": work_queue,
    "accounts": shared_program("database", "update", where=":memory:", rows=1000),
    # with a write-ahead log, and with a rollback journal
    "accounts-log": shared_program("database", "update", where=None, rows=2000),
    "accounts-journal": shared_program("database", "update", where=None, rows=2000, journal="truncate"),
    "scan-filter": shared_program("database", "lookup", rows=4000, index=0),
    "scan-group": shared_program("database", "aggregate", rows=4000),
    "scan-join": shared_program("database", "join", rows=4000, index=0),
    "deflate": shared_program("library", "deflate"),
    "bzip": shared_program("library", "bzip", level=1),
    "lz": shared_program("library", "lzma_text", preset=0),
    "sort": shared_program("language", "sorting", size=800),
    # sort 600 words
    "sort-words": lambda: partial(sorted, [f"word {i * 7919 % 104_729}" for i in range(600)]),
    "heap": shared_program("library", "heap", size=400),
    "sha256": shared_program("library", "hashing"),
    "blake2": shared_program("library", "hashing", name="blake2b"),
    "checksums": buffer_checksums,
}


def memory_leak() -> Unit:
    """Return a function that allocates 32 KiB that are never freed."""
    leaked_blocks: list[bytearray] = []
    return lambda: leaked_blocks.append(bytearray(32768))


def lock_contention() -> Unit:
    """Return a function that waits for a lock that another thread, started now, holds for 0.2 ms a call."""
    import threading

    lock, wanted, lock_held = threading.Lock(), threading.Semaphore(0), threading.Semaphore(0)

    def hold_lock() -> None:
        while True:
            wanted.acquire()
            with lock:
                lock_held.release()
                time.sleep(2e-4)

    threading.Thread(target=hold_lock, daemon=True).start()

    def wait_for_lock() -> None:
        wanted.release()
        lock_held.acquire()
        with lock:
            pass

    return wait_for_lock


def _open_file(name: str, flags: int = os.O_RDWR) -> int:
    return os.open(f"{os.environ['TMPDIR']}/{name}", os.O_CREAT | flags)


def small_buffer_writes() -> Unit:
    """Return a function that writes 2 KiB to the start of a file in TMPDIR, 64 bytes at a time.

    The file, ``buffered``, is created at once and stays. KeyError at once if TMPDIR is not set.
    """
    handle = _open_file("buffered")
    part = bytes(64)

    def write_parts() -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        for _ in range(32):
            os.write(handle, part)

    return write_parts


def flushed_writes() -> Unit:
    """Return a function that writes 4 KiB to the start of a file in TMPDIR and calls fsync.

    The file, ``flushed``, is created at once and stays. KeyError at once if TMPDIR is not set.
    """
    handle = _open_file("flushed")
    block = bytes(PAGE)

    def write_and_flush() -> None:
        os.pwrite(handle, block, 0)
        os.fsync(handle)

    return write_and_flush


def polling_calls() -> Unit:
    """Return a function that polls a pipe ten times, without waiting; the pipe stays open."""
    import select

    reading, _writing = os.pipe()
    return partial(repeat_unit, 10, select.select, [reading], [], [], 0)


def log_lines() -> Unit:
    """Open the file ``log`` in TMPDIR and return a function that appends a formatted line per call.

    The file is created if missing. KeyError, at once, if TMPDIR is unset.
    """
    handle = _open_file("log", os.O_WRONLY | os.O_APPEND)
    lines = iter(range(10**9))

    def write_log_line() -> None:
        number = next(lines)
        words = {"request": number, "state": "done", "at": time.time(), "size": number % 977}
        os.write(handle, (" ".join(f"{key}={value!r:>20}" for key, value in words.items()) + "\n").encode())

    return write_log_line


def cached_writes() -> Unit:
    """Return a function that appends 16 KiB to the file ``behind`` in TMPDIR, without fsync.

    The file is created at once if missing. KeyError, at once, if TMPDIR is unset.
    """
    handle = _open_file("behind", os.O_WRONLY | os.O_APPEND)
    block = bytes(4 * PAGE)
    return lambda: os.write(handle, block)


def keep_memory(size: float) -> None:
    """Allocate `size` * 16 MiB, at least one page, write to every page, and never free them."""
    pages = mmap.mmap(-1, max(1, int(size * 4096)) * PAGE)
    for at in range(0, len(pages), PAGE):
        pages[at] = 1
    KEPT.append(pages)


def wake_up(size: float) -> None:
    """Start a thread that wakes up about `size` * 500 times per second until the process ends."""
    import threading

    def wake_repeatedly() -> None:
        while True:
            time.sleep(2e-3 / size)

    threading.Thread(target=wake_repeatedly, daemon=True).start()


def keep_processes(size: float) -> None:
    """Start `size` * 10 processes (rounded, at least one), which end after 60 seconds; return at once."""
    for _ in range(max(1, round(size * 10))):
        if os.fork() == 0:
            time.sleep(LONG)
            os._exit(0)


def keep_files(size: float) -> None:
    """Open /dev/null `size` * 50 times (rounded), at least once, and never close it."""
    KEPT.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(max(1, round(size * 50))))


#: Objects that are never freed.
KEPT: list[object] = []
#: Seconds; longer than any run.
LONG = 60.0
#: Defects of a size that are set up before the first transaction.
STANDING: dict[str, Callable[[float], None]] = {
    "kept-memory": keep_memory,
    "wakeups": wake_up,
    "idle-processes": keep_processes,
    "open-files": keep_files,
}

#: Functions that set up a defect and return a unit of it.
DEFECTS: dict[str, Callable[[], Unit]] = {
    # read a byte of zeros twenty times: a call for each byte
    "extra-syscalls": lambda: partial(repeat_unit, 20, os.read, os.open("/dev/zero", os.O_RDONLY), 1),
    "extra-memory": lambda: touch_pages(1 << 17),
    "lock-contention": lock_contention,
    "small-buffer": small_buffer_writes,
    "extra-fsync": flushed_writes,
    "polling": polling_calls,
    # hand over to another thread and back, twice
    "extra-switches": hand_overs,
    "logging": log_lines,
    "writes-behind": cached_writes,
    "extra-processes": shared_program("system", "forking", memory=0),
    # calibrated last: starting a process takes longer with more memory
    "leak": memory_leak,
}
