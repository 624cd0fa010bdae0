"""The work of a transaction: what sets itself up and returns what does a number of its units.

Imports are where they are used, because starting up takes time.
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
from data.measure.workloads import Unit, Units, repeat

PAGE = 4096


def times(count: int, call: Callable[..., object], *arguments: Any) -> Unit:
    """Return a unit that is `count` calls."""
    return partial(repeat(partial(call, *arguments)), count)


def dictionary_lookups() -> Unit:
    """Look up 4,000 keys scattered over a hash table that no cache holds."""
    table = {number * 7919: number for number in range(200_000)}
    keys = [number * 104_729 % 200_000 * 7919 for number in range(4000)]
    return lambda: sum(table[key] for key in keys)


def accounts(journal: str) -> Unit:
    """Transfer between ten accounts of a database on disk, with a `journal`, in one transaction."""
    import sqlite3

    connection = sqlite3.connect(f"{os.environ['TMPDIR']}/accounts.db", isolation_level=None)
    connection.execute(f"pragma journal_mode = {journal}")
    connection.execute("pragma synchronous = off")
    connection.execute("create table account (id integer primary key, balance integer)")
    connection.execute("begin")
    connection.executemany("insert into account values (?, 0)", [(i,) for i in range(2000)])
    connection.execute("commit")
    place = iter(range(10**9))

    def transferred() -> None:
        first = next(place) * 37
        connection.execute("begin immediate")
        for step in range(10):
            row = (first + step * 191) % 2000
            connection.execute("update account set balance = balance + 1 where id = ?", (row,))
        connection.execute("commit")

    return transferred


def orders(query: str) -> Unit:
    """Run a query over 4,000 orders of 200 customers."""
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("create table orders (id integer primary key, customer integer, price integer)")
    connection.execute("create table customers (id integer primary key, name text)")
    connection.executemany(
        "insert into orders values (?, ?, ?)", [(i, i * 7919 % 200, i * 31 % 977) for i in range(4000)]
    )
    connection.executemany("insert into customers values (?, ?)", [(i, f"name {i}") for i in range(200)])
    return lambda: connection.execute(query).fetchall()


def bzip() -> Unit:
    """Compress 8 KiB of text by sorting blocks."""
    import bz2

    text = workloads.text()
    return lambda: bz2.compress(text, 1)


def lz() -> Unit:
    """Compress 8 KiB of text with a large dictionary, and read it back."""
    import lzma

    text = workloads.text()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    return lambda: lzma.decompress(
        lzma.compress(text, lzma.FORMAT_RAW, filters=filters), lzma.FORMAT_RAW, filters=filters
    )


def heap() -> Unit:
    """Put 400 numbers on a heap and take them off."""
    import heapq

    numbers = [i * 7919 % 104_729 for i in range(400)]

    def heaped() -> None:
        on: list[int] = []
        for number in numbers:
            heapq.heappush(on, number)
        while on:
            heapq.heappop(on)

    return heaped


def hash_small() -> Unit:
    """BLAKE2 of 64 blocks of 1 KiB."""
    import hashlib

    block = bytes(1024)
    return lambda: [hashlib.blake2b(block).digest() for _ in range(64)]


def checksums() -> Unit:
    """CRC-32 and Adler-32 of 256 KiB."""
    import zlib

    block = bytes(range(256)) * 1024
    return lambda: zlib.crc32(block) + zlib.adler32(block)


def touch(size: int) -> Unit:
    """Map `size` bytes, touch every page, and unmap them."""

    def touched() -> None:
        with mmap.mmap(-1, size) as pages:
            for at in range(0, size, PAGE):
                pages[at] = 1

    return touched


def discard() -> Unit:
    """Touch every page of 1 MiB and give them back."""
    pages = mmap.mmap(-1, 1 << 20)

    def discarded() -> None:
        for at in range(0, 1 << 20, PAGE):
            pages[at] = 1
        pages.madvise(mmap.MADV_DONTNEED)

    return discarded


def make_files() -> Unit:
    """Make, write and remove ten files of 2 KiB."""
    scratch, block = os.environ["TMPDIR"], bytes(2048)

    def made() -> None:
        for number in range(10):
            name = f"{scratch}/made{number}"
            handle = os.open(name, os.O_CREAT | os.O_WRONLY)
            os.write(handle, block)
            os.close(handle)
            os.unlink(name)  # noqa: PTH108  a system call and little else

    return made


def rename_files() -> Unit:
    """Rename a file ten times, and list its directory."""
    name = f"{os.environ['TMPDIR']}/name"
    Path(name).touch()

    def renamed() -> None:
        for _ in range(10):
            os.rename(name, f"{name}d")  # noqa: PTH104  a system call and little else
            os.rename(f"{name}d", name)  # noqa: PTH104
        os.listdir(os.environ["TMPDIR"])  # noqa: PTH208

    return renamed


def rewrite_file() -> Unit:
    """Write 64 KiB to a file at its start, in four parts, and read them back."""
    handle = os.open(f"{os.environ['TMPDIR']}/rewritten", os.O_CREAT | os.O_RDWR)
    block = bytes(16384)

    def rewritten() -> None:
        for part in range(4):
            os.pwrite(handle, block, part * 16384)
        os.pread(handle, 65536, 0)

    return rewritten


def _child(serve: Callable[[int, int], None]) -> tuple[int, int]:
    """Start a child that serves what we write; return the ends to read from and to write to."""
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


def _echo(reading: int, writing: int) -> None:
    while message := os.read(reading, 64):
        os.write(writing, message)


def _count(reading: int, writing: int) -> None:
    left = 0
    while block := os.read(reading, 65536):
        left += len(block)
        while left >= 1 << 18:
            os.write(writing, b"k")
            left -= 1 << 18


def ping_pong() -> Unit:
    """Send a child eight bytes through a pipe and read them back, ten times."""
    reading, writing = _child(_echo)

    def sent() -> None:
        for _ in range(10):
            os.write(writing, b"12345678")
            os.read(reading, 64)

    return sent


def bulk_pipe() -> Unit:
    """Send a child 256 KiB through a pipe."""
    reading, writing = _child(_count)
    block = bytes(65536)

    def sent() -> None:
        for _ in range(4):
            at = 0
            while at < len(block):
                at += os.write(writing, block[at:])
        os.read(reading, 1)

    return sent


def socket_pair() -> Unit:
    """Send ten datagrams of 1 KiB to a child through a socket and read its answers."""
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

    def sent() -> None:
        for _ in range(10):
            ours.send(block)
            ours.recv(64)

    return sent


def start_threads() -> Unit:
    """Start and join four threads."""
    import threading

    def started() -> None:
        threads = [threading.Thread(target=int) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return started


def work_queue() -> Unit:
    """Hand ten pieces of work to two threads through a queue and wait until they are done."""
    import queue
    import threading

    waiting: queue.Queue[int] = queue.Queue()

    def consume() -> None:
        while True:
            sum(range(waiting.get()))
            waiting.task_done()

    for _ in range(2):
        threading.Thread(target=consume, daemon=True).start()

    def handed() -> None:
        for _ in range(10):
            waiting.put(200)
        waiting.join()

    return handed


def _units(make: Callable[[], Unit]) -> Callable[[], Units]:
    return lambda: repeat(make())


#: A workload sets itself up and returns what does a number of its units.
WORKLOADS: dict[str, Callable[[], Units]] = {
    "recursion": workloads.recursion,
    "regex": workloads.regex,
    "json": workloads.json_text,
    "lookups": _units(dictionary_lookups),
    # read a buffer of 1 MiB once
    "read-1m": _units(lambda: partial(bytes(1 << 20).count, 1)),
    # write 256 KiB, byte by byte from a table
    "translate": _units(lambda: partial((bytes(range(256)) * 1024).translate, bytes(reversed(range(256))))),
    "copy-2m": workloads.memory_copy,
    "copy-16m": lambda: workloads.memory_copy(16 << 20),
    # fill and free a new buffer of 4 MiB
    "fill": _units(lambda: partial(bytearray, 4 << 20)),
    "touch": _units(lambda: touch(1 << 20)),
    "discard": _units(discard),
    # make and drop 20 small mappings
    "map": _units(lambda: times(20, lambda: mmap.mmap(-1, PAGE).close())),
    # ask for the parent's number 200 times
    "parent": _units(lambda: times(200, os.getppid)),
    # look at the attributes of 50 files
    "stat": _units(lambda: times(50, os.stat, Path(__file__))),
    # read 512 bytes of zeros 100 times
    "zeros": _units(lambda: times(100, os.read, os.open("/dev/zero", os.O_RDONLY), 512)),
    "make-files": _units(make_files),
    "rename": _units(rename_files),
    "rewrite": _units(rewrite_file),
    "ping-pong": _units(ping_pong),
    "bulk-pipe": _units(bulk_pipe),
    "datagrams": _units(socket_pair),
    "hand-over": workloads.hand_over,
    "start-threads": _units(start_threads),
    "work-queue": _units(work_queue),
    "accounts": workloads.sqlite,
    # with a write-ahead log, and with a rollback journal
    "accounts-log": _units(lambda: accounts("wal")),
    "accounts-journal": _units(lambda: accounts("truncate")),
    # sum what passes a filter
    "scan-filter": _units(
        lambda: orders("select sum(price) from orders where price % 7 = 3 and customer > 20")
    ),
    # group by customer
    "scan-group": _units(
        lambda: orders("select customer, count(*), avg(price) from orders group by customer")
    ),
    # join with the customers and sort
    "scan-join": _units(
        lambda: orders(
            "select name, price from orders join customers on customers.id = customer"
            " where price > 800 order by price, name limit 20"
        )
    ),
    "deflate": workloads.compression,
    "bzip": _units(bzip),
    "lz": _units(lz),
    "sort": workloads.sort,
    # sort 600 words
    "sort-words": _units(lambda: partial(sorted, [f"word {i * 7919 % 104_729}" for i in range(600)])),
    "heap": _units(heap),
    "sha256": workloads.hashing,
    "blake2": _units(hash_small),
    "checksums": _units(checksums),
}


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
