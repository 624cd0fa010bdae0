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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from data.measure import workloads
from data.measure.workloads import Units

Unit = Callable[[], object]
PAGE = 4096
#: Transactions done, begin and end by the monotonic clock.
PROGRESS = struct.Struct("=ddd")


def dictionary_lookups() -> Unit:
    """Look up 4,000 keys scattered over a hash table that no cache holds."""
    table = {number * 7919: number for number in range(200_000)}
    keys = [number * 104_729 % 200_000 * 7919 for number in range(4000)]
    return lambda: sum(table[key] for key in keys)


def read_bytes(size: int) -> Unit:
    """Read a buffer of `size` bytes once."""
    block = bytes(size)
    return lambda: block.count(1)


def translate() -> Unit:
    """Write 256 KiB, byte by byte from a table."""
    block, table = bytes(range(256)) * 1024, bytes(reversed(range(256)))
    return lambda: block.translate(table)


def copy_large() -> Unit:
    """Copy 16 MiB from one buffer to another."""
    source, target = memoryview(bytes(16 << 20)), memoryview(bytearray(16 << 20))

    def copy() -> None:
        target[:] = source

    return copy


def fill() -> Unit:
    """Fill and free a new buffer of 4 MiB."""
    return lambda: bytearray(4 << 20)


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


def protect() -> Unit:
    """Make and drop 20 small mappings."""

    def mapped() -> None:
        for _ in range(20):
            mmap.mmap(-1, PAGE).close()

    return mapped


def ask_parent() -> Unit:
    """Ask for the parent's number 200 times."""

    def asked() -> None:
        for _ in range(200):
            os.getppid()

    return asked


def look_at_files() -> Unit:
    """Look at the attributes of 50 files."""
    here = Path(__file__)

    def looked() -> None:
        for _ in range(50):
            os.stat(here)  # noqa: PTH116  a system call and little else

    return looked


def read_zeros() -> Unit:
    """Read 512 bytes of zeros 100 times."""
    zeros = os.open("/dev/zero", os.O_RDONLY)

    def read() -> None:
        for _ in range(100):
            os.read(zeros, 512)

    return read


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


def _accounts(settings: tuple[str, ...]) -> Unit:
    """Transfer between ten accounts of a database on disk in one transaction."""
    import sqlite3

    connection = sqlite3.connect(f"{os.environ['TMPDIR']}/accounts.db", isolation_level=None)
    for setting in (*settings, "synchronous = off"):
        connection.execute(f"pragma {setting}")
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


def accounts_log() -> Unit:
    """Transfer between accounts, with a write-ahead log."""
    return _accounts(("journal_mode = wal",))


def accounts_journal() -> Unit:
    """Transfer between accounts, with a rollback journal."""
    return _accounts(("journal_mode = truncate",))


def _orders(query: str) -> Unit:
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


def scan_filter() -> Unit:
    """Sum what passes a filter."""
    return _orders("select sum(price) from orders where price % 7 = 3 and customer > 20")


def scan_group() -> Unit:
    """Group by customer."""
    return _orders("select customer, count(*), avg(price) from orders group by customer")


def scan_join() -> Unit:
    """Join with the customers and sort."""
    return _orders(
        "select name, price from orders join customers on customers.id = customer"
        " where price > 800 order by price, name limit 20"
    )


def _text() -> bytes:
    return b"".join(b"%d squared is %d;" % (i, i * i) for i in range(500))[:8192]


def bzip() -> Unit:
    """Compress 8 KiB of text by sorting blocks."""
    import bz2

    text = _text()
    return lambda: bz2.compress(text, 1)


def lz() -> Unit:
    """Compress 8 KiB of text with a large dictionary, and read it back."""
    import lzma

    text = _text()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    return lambda: lzma.decompress(
        lzma.compress(text, lzma.FORMAT_RAW, filters=filters), lzma.FORMAT_RAW, filters=filters
    )


def sort_words() -> Unit:
    """Sort 600 words."""
    words = [f"word {i * 7919 % 104_729}" for i in range(600)]
    return lambda: sorted(words)


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


def _units(make: Callable[[], Unit]) -> Callable[[], Units]:
    def made() -> Units:
        unit = make()

        def run(count: int) -> None:
            for _ in range(count):
                unit()

        return run

    return made


#: A workload sets itself up and returns what does a number of its units.
WORKLOADS: dict[str, Callable[[], Units]] = {
    "recursion": workloads.recursion,
    "regex": workloads.regex,
    "json": workloads.json_text,
    "lookups": _units(dictionary_lookups),
    "read-1m": _units(lambda: read_bytes(1 << 20)),
    "translate": _units(translate),
    "copy-2m": workloads.memory_copy,
    "copy-16m": _units(copy_large),
    "fill": _units(fill),
    "touch": _units(lambda: touch(1 << 20)),
    "discard": _units(discard),
    "map": _units(protect),
    "parent": _units(ask_parent),
    "stat": _units(look_at_files),
    "zeros": _units(read_zeros),
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
    "accounts-log": _units(accounts_log),
    "accounts-journal": _units(accounts_journal),
    "scan-filter": _units(scan_filter),
    "scan-group": _units(scan_group),
    "scan-join": _units(scan_join),
    "deflate": workloads.compression,
    "bzip": _units(bzip),
    "lz": _units(lz),
    "sort": workloads.sort,
    "sort-words": _units(sort_words),
    "heap": _units(heap),
    "sha256": workloads.hashing,
    "blake2": _units(hash_small),
    "checksums": _units(checksums),
}


def extra_syscalls() -> Unit:
    """Read a byte of zeros twenty times: a call for each byte."""
    zeros = os.open("/dev/zero", os.O_RDONLY)

    def called() -> None:
        for _ in range(20):
            os.read(zeros, 1)

    return called


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

    def polled() -> None:
        for _ in range(10):
            select.select([reading], [], [], 0)

    return polled


def switches() -> Unit:
    """Ask another thread and wait for its answer, twice."""
    run = workloads.hand_over()
    return lambda: run(1)


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


#: A defect sets itself up and returns one unit of it. Two more lie outside: extra-work and quota.
DEFECTS: dict[str, Callable[[], Unit]] = {
    "extra-syscalls": extra_syscalls,
    "extra-memory": lambda: touch(1 << 17),
    "lock-contention": contention,
    "small-buffer": small_buffer,
    "extra-fsync": flush,
    "polling": poll,
    "extra-switches": switches,
    "logging": log,
    "extra-processes": helper,
    # the last to calibrate: starting a process costs more with much memory
    "leak": leak,
}


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
    spoil = DEFECTS[defect]() if defect in DEFECTS else None
    shown = Progress(progress)
    with _started():
        begin = time.monotonic()
        # one that is killed in its first transaction has begun, too
        shown.write(0, begin, 0)
        for number in range(transactions):
            do(int((number + 1) * units) - int(number * units))
            if spoil is not None:
                for _ in range(int((number + 1) * amount) - int(number * amount)):
                    spoil()
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
        spoil = make()

        def spoiled(count: int, spoil: Unit = spoil) -> None:
            for _ in range(count):
                spoil()

        costs[name] = _cost(spoiled, seconds / 4)
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
