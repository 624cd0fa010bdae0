"""A stage ends with the DVC that began it, and the next one waits until it has.

DVC that is killed leaves its stage behind, and a stage that is killed its processes: they would go on and
write into the folders in which the next run writes. Only Linux tells of another process's end; elsewhere the
next stage waits all the same.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from data.paths import Places
from data.tables.files import PART

#: What may stand between DVC and its stage.
_SHELLS = frozenset({"sh", "ash", "bash", "busybox", "dash", "fish", "ksh", "zsh"})


@contextmanager
def alone(family: str) -> Iterator[None]:
    """Run a stage of `family` while no other one of it runs, and only as long as the DVC that began it.

    What a stage that was killed has half written is removed before. Without DVC nothing is done.
    """
    root = os.environ.get("DVC_ROOT")
    if root is None or "DVC_STAGE" not in os.environ:
        yield
        return
    end_with(_beginner())
    with _locked(Path(root) / ".dvc" / "tmp" / f"perfjudge-{family}"):
        _sweep(family)
        yield


@cache
def end_with(process: int) -> None:
    """End at once, without a word, when another process of this session has ended."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        handle = os.pidfd_open(process)
        # an orphan's new parent belongs to another session
        orphan = os.getsid(process) != os.getsid(0)
    except ProcessLookupError:
        orphan = True
    if orphan:
        _end()
    threading.Thread(target=_watch, args=(handle,), daemon=True, name=f"ends with {process}").start()


def end_with_parent(parent: int) -> None:
    """End with the process that began this one, or at once if that is no more this one's parent."""
    if os.getppid() != parent:
        _end()
    end_with(parent)


def _watch(handle: int) -> None:
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    ended.poll()
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _beginner() -> int:
    """Return the process that began this one, behind the shells between them."""
    process = os.getppid()
    try:
        while Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip() in _SHELLS:
            process = _parent(process)
    except OSError:
        return os.getppid()
    return process


def _parent(process: int) -> int:
    # the name, in brackets, may hold anything
    told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    return int(told.split()[1])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system takes away from processes that are no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            sys.stderr.write(f"waiting for process {file.read()}, which holds {path.name}\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _sweep(family: str) -> None:
    for folder in vars(Places(family)).values():
        for left in folder.rglob(f".*{PART}") if folder.is_dir() else ():
            shutil.rmtree(left, ignore_errors=True)
