"""Units of work that mostly ask the kernel: memory, files, pipes, sockets and threads.

Imports are where they are used, because starting up takes time.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

Unit = Callable[[], object]
PAGE = 4096


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
