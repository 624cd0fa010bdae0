"""The work of a transaction: what sets itself up and returns what does a number of its units.

Imports are where they are used, because starting up takes time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from data.matrices import kernel_units
from data.matrices.kernel_units import Unit
from data.measure import workloads
from data.measure.workloads import Units


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
    return lambda: workloads.repeat(make())


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
    "touch": _units(lambda: kernel_units.touch(1 << 20)),
    "discard": _units(kernel_units.discard),
    "map": _units(kernel_units.protect),
    "parent": _units(kernel_units.ask_parent),
    "stat": _units(kernel_units.look_at_files),
    "zeros": _units(kernel_units.read_zeros),
    "make-files": _units(kernel_units.make_files),
    "rename": _units(kernel_units.rename_files),
    "rewrite": _units(kernel_units.rewrite_file),
    "ping-pong": _units(kernel_units.ping_pong),
    "bulk-pipe": _units(kernel_units.bulk_pipe),
    "datagrams": _units(kernel_units.socket_pair),
    "hand-over": workloads.hand_over,
    "start-threads": _units(kernel_units.start_threads),
    "work-queue": _units(kernel_units.work_queue),
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
