"""Stages: the families' names on the command line, one stage at a time, one line where it fails.

A stage ends with the DVC that began it, and the next one waits for that. DVC that is killed leaves its stage
behind, and a stage that is killed its processes: they would go on and write into the folders of the next run.
Only Linux reports the end of another process; elsewhere the next stage waits all the same.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from uuid import uuid4

from data.errors import InputError, ModelError, one_line, visible
from data.families import FAMILIES
from data.paths import Places
from data.tables.files import PART, write_text

#: A stage reads files, calls pure functions and writes files, all below the working directory.
Stage = Callable[[], None]
#: Exit codes: bad input or usage, and an unexpected error (EX_SOFTWARE of sysexits.h).
BAD_INPUT, UNEXPECTED = 2, 70
#: How Python encodes bytes of names that are not UTF-8.
_NOT_UTF8 = "surrogates not allowed"
#: Packages that only some users need, and the extra of perfjudge that installs them.
EXTRAS = {"dask": "cluster", "distributed": "cluster", "psycopg": "postgres", "boto3": "s3"}
#: Characters of an error's message that are shown.
_MOST = 300
#: What may run between DVC and its stage.
_SHELLS = frozenset({"sh", "ash", "bash", "busybox", "dash", "fish", "ksh", "zsh"})
#: The folder of compiled modules where they may not lie beside their source.
BYTECODE = Path(".bytecode")
#: The instruction sets that x86-64-v3 adds, as Linux lists them ("abm" has lzcnt).
X86_64_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
#: The variables that restrict libraries to these instruction sets.
PINNED = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_ENABLE_CPU_FEATURES": "X86_V3",
    "ARROW_USER_SIMD_LEVEL": "AVX2",
}


def run(verb: str, stage_of: Callable[[str], Stage | str | None]) -> None:
    """Run a stage for the families that the command line names.

    Parameters
    ----------
    verb : str
        For the usage message.
    stage_of : callable
        Returns a family's stage, or the import string of one; None where the family has no such stage.
    """
    prepare_process()
    stages = {family: stage for family in FAMILIES if (stage := stage_of(family)) is not None}
    parser = argparse.ArgumentParser(prog=verb)
    parser.add_argument("families", metavar="FAMILY", nargs="+", choices=stages, help=", ".join(stages))
    for family in parser.parse_args().families:
        with alone(family):
            guard(partial(_call, stages[family]))


def _call(stage: Stage | str) -> None:
    (resolve_name(stage) if isinstance(stage, str) else stage)()


def guard(stage: Stage) -> None:
    """Call `stage`; if it fails, end with one line on stderr and the exit code of `end`."""
    try:
        stage()
    except Exception as error:  # noqa: BLE001 - the net below every stage
        sys.exit(end(error))


def end(error: Exception, prefix: str = "") -> int:
    """Write to stderr in one line why there is no result, and return the exit code.

    An `InputError`, a `ModelError`, an `OSError` or a name that is not UTF-8 names the input or the model.
    Any other error is a mistake of ours: its traceback goes into a file that the line names.

    Parameters
    ----------
    prefix : str
        The beginning of the line.
    """
    if isinstance(error, InputError | ModelError):
        message, code = str(error), BAD_INPUT
    elif isinstance(error, OSError):
        file = "" if error.filename is None else f"{error.filename}: "
        message, code = f"{file}{error.strerror or error}", BAD_INPUT
    elif isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        extra = EXTRAS[error.name]
        install = f"install perfjudge[{extra}] (uv sync --extra {extra})"
        message, code = f"the package {error.name} is not installed; {install}", BAD_INPUT
    elif isinstance(error, UnicodeEncodeError) and error.reason == _NOT_UTF8:
        # a name of a file: all other text is decoded strictly
        message, code = f"{error.object}: is not UTF-8; a file of this name must be renamed", BAD_INPUT
    else:
        message, code = f"unexpected {summary(error)}; {_traceback_file(error)}", UNEXPECTED
    sys.stderr.write(f"{one_line(f'{prefix}{message}')}\n")
    return code


def summary(error: Exception) -> str:
    """Return the type and the message of an error in one line, cut where it is long."""
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."


def _traceback_file(error: Exception) -> str:
    trace = visible("".join(traceback.format_exception(error)))
    try:
        path = Path(tempfile.gettempdir()) / f"perfjudge-{uuid4().hex}.txt"
        write_text(path, trace)
    except OSError as exc:
        return f"the trace could not be written ({exc.strerror or exc})"
    return f"the trace is in {path}"


@contextmanager
def alone(family: str) -> Iterator[None]:
    """Run a stage of `family` while no other of its stages runs, and only as long as the DVC that began it.

    Files that a killed stage has half written are removed first. Without DVC this does nothing.
    """
    root = os.environ.get("DVC_ROOT")
    if root is None or "DVC_STAGE" not in os.environ:
        yield
        return
    end_with(_beginner())
    path = Path(root) / ".dvc" / "tmp" / f"perfjudge-{family}"
    path.parent.mkdir(parents=True, exist_ok=True)
    # the system takes the lock away from processes that have ended
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
        for folder in vars(Places(family)).values():
            for left in folder.rglob(f".*{PART}") if folder.is_dir() else ():
                shutil.rmtree(left, ignore_errors=True)
        yield


@cache
def end_with(process: int) -> None:
    """End this process at once, without a message, when another process of this session has ended."""
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

    def watch() -> None:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll()
        _end()

    threading.Thread(target=watch, daemon=True, name=f"ends with {process}").start()


def end_with_parent(parent: int) -> None:
    """End with the process that began this one, or at once if that is no longer the parent."""
    if os.getppid() != parent:
        _end()
    end_with(parent)


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _beginner() -> int:
    """Return the process that began this one, behind the shells between them."""
    process = os.getppid()
    try:
        while Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip() in _SHELLS:
            # the name, in brackets, may hold anything
            words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            process = int(words[1])
    except OSError:
        return os.getppid()
    return process


def prepare_process() -> None:
    """Set up a process for a stage, before it imports NumPy."""
    keep_bytecode()
    pin_arithmetic()
    collect_rarely()


def keep_bytecode() -> None:
    """Keep compiled modules in a separate folder where PYTHONDONTWRITEBYTECODE is set.

    Each stage and each of its processes would compile pandas and scikit-learn anew, which takes longer than
    most stages do.
    """
    if sys.dont_write_bytecode:
        folder = str(BYTECODE.resolve())
        sys.dont_write_bytecode, sys.pycache_prefix = False, folder
        # for the processes that fit models in parallel
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder


def pin_arithmetic() -> None:
    """Restrict NumPy, SciPy and Arrow to the instructions of x86-64-v3 in this process and its children.

    These libraries choose their loops when they are loaded, by the instructions of the processor: sums are
    added in another order, logarithms differ in the last bit, and an unstable sort orders equal keys
    differently. Nearly all x86-64 processors since 2015 have the instructions of x86-64-v3, and compute the
    same bits with them. OpenBLAS gets one thread, as it would take one per processor. Where an instruction is
    missing, or on another architecture, the libraries choose as usual.
    """
    if "numpy" in sys.modules:
        raise RuntimeError("NumPy was imported before a stage could choose its instructions")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if processor_flags() >= X86_64_V3:
        # NumPy accepts one of both variables
        os.environ.pop("NPY_DISABLE_CPU_FEATURES", None)
        os.environ.update(PINNED)


def processor_flags() -> frozenset[str]:
    """Return the names of the instruction sets of this processor; none where Linux does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset())


def collect_rarely() -> None:
    """Look for garbage in cycles every 100,000 objects: a stage ends soon, and looking takes 5 % of it."""
    gc.set_threshold(100_000, 50, 50)
