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
from pathlib import Path
from typing import Any

from data.measure import workloads
from data.measure.workloads import Unit, Units, repeat_unit

PAGE = 4096


def repeat_call(count: int, call: Callable[..., object], *arguments: Any) -> Unit:
    """Return a function that calls ``call(*arguments)`` `count` times."""
    return partial(repeat_unit(partial(call, *arguments)), count)


def dictionary_lookups() -> Unit:
    """Return a function that looks up 4,000 scattered keys of a hash table larger than any cache."""
    table = {number * 7919: number for number in range(200_000)}
    keys = [number * 104_729 % 200_000 * 7919 for number in range(4000)]
    return lambda: sum(table[key] for key in keys)


def account_transfers(journal: str) -> Unit:
    """Return a function that updates ten accounts of an SQLite file; `journal` is the journal mode."""
    import sqlite3

    connection = sqlite3.connect(f"{os.environ['TMPDIR']}/accounts.db", isolation_level=None)
    connection.execute(f"pragma journal_mode = {journal}")
    connection.execute("pragma synchronous = off")
    connection.execute("create table account (id integer primary key, balance integer)")
    connection.execute("begin")
    connection.executemany("insert into account values (?, 0)", [(i,) for i in range(2000)])
    connection.execute("commit")
    place = iter(range(10**9))

    def transfer_amounts() -> None:
        first = next(place) * 37
        connection.execute("begin immediate")
        for step in range(10):
            row = (first + step * 191) % 2000
            connection.execute("update account set balance = balance + 1 where id = ?", (row,))
        connection.execute("commit")

    return transfer_amounts


def order_query(query: str) -> Unit:
    """Return a function that runs the SQL `query` in an SQLite database and returns its rows.

    The database is created now, in memory, for this function alone, with ``orders (id, customer, price)``,
    4,000 rows, and ``customers (id, name)``, 200 rows. A wrong query raises an `sqlite3.Error` when the
    function is called.
    """
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("create table orders (id integer primary key, customer integer, price integer)")
    connection.execute("create table customers (id integer primary key, name text)")
    connection.executemany(
        "insert into orders values (?, ?, ?)", [(i, i * 7919 % 200, i * 31 % 977) for i in range(4000)]
    )
    connection.executemany("insert into customers values (?, ?)", [(i, f"name {i}") for i in range(200)])
    return lambda: connection.execute(query).fetchall()


def bzip_compression() -> Unit:
    """Return a function that compresses 8 KiB of text with bzip2."""
    import bz2

    text = workloads.sample_text()
    return lambda: bz2.compress(text, 1)


def lzma_round_trip() -> Unit:
    """Return a function that compresses 8 KiB of text with LZMA, and decompresses it."""
    import lzma

    text = workloads.sample_text()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    return lambda: lzma.decompress(
        lzma.compress(text, lzma.FORMAT_RAW, filters=filters), lzma.FORMAT_RAW, filters=filters
    )


def heap_pushes() -> Unit:
    """Return a function that pushes 400 numbers on a heap and pops them."""
    import heapq

    numbers = [i * 7919 % 104_729 for i in range(400)]

    def push_and_pop() -> None:
        on: list[int] = []
        for number in numbers:
            heapq.heappush(on, number)
        while on:
            heapq.heappop(on)

    return push_and_pop


def small_block_hashes() -> Unit:
    """Return a function that computes BLAKE2 of 64 blocks of 1 KiB."""
    import hashlib

    block = bytes(1024)
    return lambda: [hashlib.blake2b(block).digest() for _ in range(64)]


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


def file_creations() -> Unit:
    """Return a function that creates, writes and removes ten files of 2 KiB in the directory TMPDIR.

    KeyError if this environment variable is not set.
    """
    scratch, block = os.environ["TMPDIR"], bytes(2048)

    def create_files() -> None:
        for number in range(10):
            name = f"{scratch}/made{number}"
            handle = os.open(name, os.O_CREAT | os.O_WRONLY)
            os.write(handle, block)
            os.close(handle)
            os.unlink(name)  # noqa: PTH108  a system call and little else

    return create_files


def file_renames() -> Unit:
    """Return a function that renames a file twenty times, and lists its directory."""
    name = f"{os.environ['TMPDIR']}/name"
    Path(name).touch()

    def rename_file() -> None:
        for _ in range(10):
            os.rename(name, f"{name}d")  # noqa: PTH104  a system call and little else
            os.rename(f"{name}d", name)  # noqa: PTH104
        os.listdir(os.environ["TMPDIR"])  # noqa: PTH208

    return rename_file


def file_rewrites() -> Unit:
    """Return a function that overwrites the first 64 KiB of a file in four parts, and reads them."""
    handle = os.open(f"{os.environ['TMPDIR']}/rewritten", os.O_CREAT | os.O_RDWR)
    block = bytes(16384)

    def rewrite_file() -> None:
        for part in range(4):
            os.pwrite(handle, block, part * 16384)
        os.pread(handle, 65536, 0)

    return rewrite_file


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


def _echo_messages(reading: int, writing: int) -> None:
    while message := os.read(reading, 64):
        os.write(writing, message)


def _confirm_blocks(reading: int, writing: int) -> None:
    left = 0
    while block := os.read(reading, 65536):
        left += len(block)
        while left >= 1 << 18:
            os.write(writing, b"k")
            left -= 1 << 18


def ping_pong() -> Unit:
    """Return a function that sends eight bytes to a child through a pipe and reads the echo, ten times."""
    reading, writing = _start_child(_echo_messages)

    def exchange_messages() -> None:
        for _ in range(10):
            os.write(writing, b"12345678")
            os.read(reading, 64)

    return exchange_messages


def bulk_pipe() -> Unit:
    """Return a function that sends 256 KiB to a child through a pipe."""
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

    The child is started now, and ends 5 s after the last datagram.
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
    """Return a function that puts ten tasks on the queue of two threads and waits until they are done."""
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


def _repeat_units(make: Callable[[], Unit]) -> Callable[[], Units]:
    return lambda: repeat_unit(make())


#: Functions that set up a workload and return a function that does a number of its units.
WORKLOADS: dict[str, Callable[[], Units]] = {
    "recursion": workloads.recursion_workload,
    "regex": workloads.regex_workload,
    "json": workloads.json_workload,
    "lookups": _repeat_units(dictionary_lookups),
    # read a buffer of 1 MiB once
    "read-1m": _repeat_units(lambda: partial(bytes(1 << 20).count, 1)),
    # write 256 KiB, byte by byte from a table
    "translate": _repeat_units(
        lambda: partial((bytes(range(256)) * 1024).translate, bytes(reversed(range(256))))
    ),
    "copy-2m": workloads.memory_copy_workload,
    "copy-16m": lambda: workloads.memory_copy_workload(16 << 20),
    # fill and free a new buffer of 4 MiB
    "fill": _repeat_units(lambda: partial(bytearray, 4 << 20)),
    "touch": _repeat_units(lambda: touch_pages(1 << 20)),
    "discard": _repeat_units(discard_pages),
    # create and remove 20 small mappings
    "map": _repeat_units(lambda: repeat_call(20, lambda: mmap.mmap(-1, PAGE).close())),
    # get the process id of the parent 200 times
    "parent": _repeat_units(lambda: repeat_call(200, os.getppid)),
    # read the attributes of a file 50 times
    "stat": _repeat_units(lambda: repeat_call(50, os.stat, Path(__file__))),
    # read 512 bytes of zeros 100 times
    "zeros": _repeat_units(lambda: repeat_call(100, os.read, os.open("/dev/zero", os.O_RDONLY), 512)),
    "make-files": _repeat_units(file_creations),
    "rename": _repeat_units(file_renames),
    "rewrite": _repeat_units(file_rewrites),
    "ping-pong": _repeat_units(ping_pong),
    "bulk-pipe": _repeat_units(bulk_pipe),
    "datagrams": _repeat_units(socket_pair),
    "hand-over": workloads.hand_over_workload,
    "start-threads": _repeat_units(thread_starts),
    "work-queue": _repeat_units(work_queue),
    "accounts": workloads.sqlite_workload,
    # with a write-ahead log, and with a rollback journal
    "accounts-log": _repeat_units(lambda: account_transfers("wal")),
    "accounts-journal": _repeat_units(lambda: account_transfers("truncate")),
    # filter and sum
    "scan-filter": _repeat_units(
        lambda: order_query("select sum(price) from orders where price % 7 = 3 and customer > 20")
    ),
    # group by customer
    "scan-group": _repeat_units(
        lambda: order_query("select customer, count(*), avg(price) from orders group by customer")
    ),
    # join with the customers and sort
    "scan-join": _repeat_units(
        lambda: order_query(
            "select name, price from orders join customers on customers.id = customer"
            " where price > 800 order by price, name limit 20"
        )
    ),
    "deflate": workloads.compression_workload,
    "bzip": _repeat_units(bzip_compression),
    "lz": _repeat_units(lzma_round_trip),
    "sort": workloads.sort_workload,
    # sort 600 words
    "sort-words": _repeat_units(lambda: partial(sorted, [f"word {i * 7919 % 104_729}" for i in range(600)])),
    "heap": _repeat_units(heap_pushes),
    "sha256": workloads.hash_workload,
    "blake2": _repeat_units(small_block_hashes),
    "checksums": _repeat_units(buffer_checksums),
}


def memory_leak() -> Unit:
    """Return a function that allocates 32 KiB that are never freed."""
    leaked_blocks: list[bytearray] = []
    return lambda: leaked_blocks.append(bytearray(32768))


def lock_contention() -> Unit:
    """Return a function that waits for a lock that another thread holds for 0.2 ms."""
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


def small_buffer_writes() -> Unit:
    """Return a function that writes 2 KiB to a file, 64 bytes at a time."""
    handle = os.open(f"{os.environ['TMPDIR']}/buffered", os.O_CREAT | os.O_RDWR)
    part = bytes(64)

    def write_parts() -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        for _ in range(32):
            os.write(handle, part)

    return write_parts


def flushed_writes() -> Unit:
    """Return a function that writes 4 KiB to a file in TMPDIR and waits until they are on the disk.

    KeyError if this environment variable is not set.
    """
    handle = os.open(f"{os.environ['TMPDIR']}/flushed", os.O_CREAT | os.O_RDWR)
    block = bytes(PAGE)

    def write_and_flush() -> None:
        os.pwrite(handle, block, 0)
        os.fsync(handle)

    return write_and_flush


def polling_calls() -> Unit:
    """Return a function that polls a pipe ten times."""
    import select

    reading, _writing = os.pipe()
    return repeat_call(10, select.select, [reading], [], [], 0)


def log_lines() -> Unit:
    """Return a function that formats a line and appends it to the file ``log`` in the directory TMPDIR.

    KeyError if this environment variable is not set.
    """
    handle = os.open(f"{os.environ['TMPDIR']}/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    lines = iter(range(10**9))

    def write_log_line() -> None:
        number = next(lines)
        words = {"request": number, "state": "done", "at": time.time(), "size": number % 977}
        os.write(handle, (" ".join(f"{key}={value!r:>20}" for key, value in words.items()) + "\n").encode())

    return write_log_line


def child_process_starts() -> Unit:
    """Return a function that starts a process that ends immediately, and waits for it."""

    def start_child() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    return start_child


def cached_writes() -> Unit:
    """Return a function that appends 16 KiB to a file in the page cache."""
    handle = os.open(f"{os.environ['TMPDIR']}/behind", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    block = bytes(4 * PAGE)
    return lambda: os.write(handle, block)


def keep_memory(size: float) -> None:
    """Allocate `size` * 16 MiB, at least one page, write to every page, and never free them."""
    pages = mmap.mmap(-1, max(1, int(size * 4096)) * PAGE)
    for at in range(0, len(pages), PAGE):
        pages[at] = 1
    KEPT.append(pages)


def wake_up(size: float) -> None:
    """Start an idle thread that wakes up `size` * 500 times per second."""
    import threading

    def wake_repeatedly() -> None:
        while True:
            time.sleep(2e-3 / size)

    threading.Thread(target=wake_repeatedly, daemon=True).start()


def keep_processes(size: float) -> None:
    """Start `size` * 10 processes, at least one, that sleep until this process ends."""
    for _ in range(max(1, round(size * 10))):
        if os.fork() == 0:
            time.sleep(LONG)
            os._exit(0)


def keep_files(size: float) -> None:
    """Open `size` * 50 files, at least one, and never close them."""
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
    "extra-syscalls": lambda: repeat_call(20, os.read, os.open("/dev/zero", os.O_RDONLY), 1),
    "extra-memory": lambda: touch_pages(1 << 17),
    "lock-contention": lock_contention,
    "small-buffer": small_buffer_writes,
    "extra-fsync": flushed_writes,
    "polling": polling_calls,
    # hand over to another thread and back, twice
    "extra-switches": lambda: partial(workloads.hand_over_workload(), 1),
    "logging": log_lines,
    "writes-behind": cached_writes,
    "extra-processes": child_process_starts,
    # calibrated last: starting a process takes longer with more memory
    "leak": memory_leak,
}
