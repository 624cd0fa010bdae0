"""Run stages: families from the command line, one stage of a family at a time, errors in one line.

A stage ends when the DVC process that started it ends, and the next one waits for that. Otherwise a killed
DVC would leave its stage running, and a killed stage its worker processes, which would write into the folders
of the next run. Only Linux reports the end of another process; elsewhere the next stage only waits.
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
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from uuid import uuid4

from data.errors import InputError, ModelError, escape_invisible, one_line, shorten
from data.families import FAMILIES
from data.paths import FamilyPaths
from data.tables.files import PART, write_text

#: A stage reads files, calls pure functions and writes files, all below the working directory.
Stage = Callable[[], None]
#: Exit codes: bad input or usage, and an unexpected error (EX_SOFTWARE of sysexits.h).
BAD_INPUT, UNEXPECTED = 2, 70
#: Python's reason for an error in encoding a file name that is not UTF-8.
_NOT_UTF8 = "surrogates not allowed"
#: Optional packages, and the extra of perfjudge that installs each.
EXTRAS = {"dask": "cluster", "distributed": "cluster", "psycopg": "postgres", "boto3": "s3"} | dict.fromkeys(
    (
        "dvc", "imblearn", "mapie", "matplotlib", "mlflow", "optuna", "pyarrow", "rustworkx", "vl_convert",
        "xgboost",
    ),
    "train",
)  # fmt: skip
#: Maximum number of characters of an error message.
_MOST = 300
#: Shells that may run between DVC and its stage.
_SHELLS = frozenset({"sh", "ash", "bash", "busybox", "dash", "fish", "ksh", "zsh"})
#: The folder of compiled modules if they may not be stored next to their source.
BYTECODE = Path(".bytecode")
#: Linux's names of the instruction sets that x86-64-v3 adds ("abm" includes lzcnt).
X86_64_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
#: The folder with the duration of each stage's last run in seconds, a file per stage of DVC.
DURATIONS = Path(".dvc/tmp/perfjudge-durations")
#: The variables that restrict libraries to these instruction sets.
PINNED = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_ENABLE_CPU_FEATURES": "X86_V3",
    "ARROW_USER_SIMD_LEVEL": "AVX2",
}


def run_stage(verb: str, stage_of: Callable[[str], Stage | str | None]) -> None:
    """Run the stage `verb` for each family (at least one) in the command line, one after the other.

    `stage_of` takes a family and returns its stage, a function or an import string (``module:function``), or
    None if the family has no such stage; such a family in the command line is an error. The first failed
    stage ends the process (see `exit_on_error`). If DVC runs the stage, other stages of a family are awaited,
    and the total duration in seconds is written to a file in `DURATIONS`, named like the stage in DVC.
    """
    began = time.monotonic()
    prepare_process()
    stages = {family: stage for family in FAMILIES if (stage := stage_of(family)) is not None}
    parser = argparse.ArgumentParser(prog=verb)
    parser.add_argument("families", metavar="FAMILY", nargs="+", choices=stages, help=", ".join(stages))
    for family in parser.parse_args().families:
        with alone(family):
            exit_on_error(stages[family])
    if {"DVC_ROOT", "DVC_STAGE"} <= os.environ.keys():
        path = Path(os.environ["DVC_ROOT"]) / DURATIONS / os.environ["DVC_STAGE"]
        write_text(path, f"{time.monotonic() - began:.1f}")


def open_closed_streams() -> None:
    """Discard what is written to standard output or standard error if it is closed (``2>&-``).

    Python has None in its place, and the next opened file would get its number, also in programs that this
    process starts.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until the process ends
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def exit_on_error(stage: Stage | str) -> None:
    """Call `stage`, a function or its import string; at any Exception, exit with `report_error`."""
    open_closed_streams()
    try:
        # the import may fail, too
        (resolve_name(stage) if isinstance(stage, str) else stage)()
    except Exception as error:  # noqa: BLE001 - the last resort of every stage
        sys.exit(report_error(error))


def report_error(error: Exception, prefix: str = "") -> int:
    """Write an error to stderr in one line, which begins with `prefix`, and return the exit code.

    An `InputError`, a `ModelError`, an `OSError`, a missing optional package or a file name that is not UTF-8
    is an error of the user: 2 (`BAD_INPUT`). Any other error is a bug: 70 (`UNEXPECTED`), with a traceback in
    a temporary file, which the line names.
    """
    if isinstance(error, InputError | ModelError):
        message, code = str(error), BAD_INPUT
    elif isinstance(error, OSError):
        file = "" if error.filename is None else f"{error.filename}: "
        message, code = f"{file}{error.strerror or error}", BAD_INPUT
    elif remedy := missing_package(error):
        message, code = remedy, BAD_INPUT
    elif isinstance(error, UnicodeEncodeError) and error.reason == _NOT_UTF8:
        # a name of a file: all other text is decoded strictly
        message, code = f"{error.object}: is not UTF-8; a file of this name must be renamed", BAD_INPUT
    else:
        trace = escape_invisible("".join(traceback.format_exception(error)))
        try:
            path = Path(tempfile.gettempdir()) / f"perfjudge-{uuid4().hex}.txt"
            write_text(path, trace)
            trace_place = f"the trace is in {path}"
        except OSError as exc:
            trace_place = f"the trace could not be written ({exc.strerror or exc})"
        message, code = f"unexpected {error_summary(error)}; {trace_place}", UNEXPECTED
    sys.stderr.write(f"{one_line(f'{prefix}{message}')}\n")
    return code


def missing_package(error: Exception) -> str:
    """Return how to install the optional package whose import failed; empty for any other error."""
    name = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name not in EXTRAS:
        return ""
    return f"the package {name} is not installed; install it with: pip install 'perfjudge[{EXTRAS[name]}]'"


def error_summary(error: Exception) -> str:
    """Return type and message of an error in one line of at most 300 characters and "..."."""
    return shorten(" ".join("".join(traceback.format_exception_only(error)).split()), _MOST)


@contextmanager
def alone(family: str) -> Iterator[None]:
    """Run the block while no other stage of `family` runs, and only while the DVC that started it runs.

    It waits for a running stage, with a message on stderr, and removes the family's partial files, which
    killed stages left. This process is killed when DVC ends, on Linux. Without DVC, the block just runs.
    """
    root = os.environ.get("DVC_ROOT")
    if root is None or "DVC_STAGE" not in os.environ:
        yield
        return
    end_with_process(_starting_process())
    path = Path(root) / ".dvc" / "tmp" / f"perfjudge-{family}"
    path.parent.mkdir(parents=True, exist_ok=True)
    # the kernel releases the lock of a process that has ended
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
        for folder in vars(FamilyPaths(family)).values():
            for partial_file in folder.rglob(f".*{PART}") if folder.is_dir() else ():
                shutil.rmtree(partial_file, ignore_errors=True)
        yield


@cache
def end_with_process(process: int) -> None:
    """Kill this process when another `process` (its id) of the same session has ended; only on Linux.

    It is killed (SIGKILL) at once if the other one has already ended or belongs to another session. Returns
    immediately: a thread waits. A second call with the same id does nothing.
    """
    if not hasattr(os, "pidfd_open"):
        return
    try:
        handle = os.pidfd_open(process)
        # an orphan's new parent belongs to another session
        orphan = os.getsid(process) != os.getsid(0)
    except ProcessLookupError:
        orphan = True
    if orphan:
        signal.raise_signal(signal.SIGKILL)

    def kill_after_end() -> None:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll()
        signal.raise_signal(signal.SIGKILL)

    threading.Thread(target=kill_after_end, daemon=True, name=f"ends with {process}").start()


def end_with_parent(parent: int) -> None:
    """Kill this process when its parent has ended (see `end_with_process`); at once if it is not `parent`."""
    if os.getppid() != parent:
        signal.raise_signal(signal.SIGKILL)
    end_with_process(parent)


def _starting_process() -> int:
    process = os.getppid()
    try:
        while Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip() in _SHELLS:
            # the name, in brackets, may contain spaces and brackets
            words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            process = int(words[1])
    except OSError:
        return os.getppid()
    return process


def prepare_process() -> None:
    """Store compiled modules, pin the instruction set, collect garbage rarely; call it before NumPy."""
    keep_bytecode()
    pin_arithmetic()
    collect_rarely()


def keep_bytecode() -> None:
    """Store compiled modules in ``.bytecode`` if Python is set to store none: they would be compiled anew."""
    if sys.dont_write_bytecode:
        folder = str(BYTECODE.resolve())
        sys.dont_write_bytecode, sys.pycache_prefix = False, folder
        # for worker processes
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder


def pin_arithmetic() -> None:
    """Restrict NumPy, SciPy and Arrow to the instructions of x86-64-v3 in this process and its children.

    By default, they choose loops by the processor's instructions; sums, the last bit of logarithms and the
    order of equal keys in an unstable sort depend on them. If an instruction is missing, they choose as
    usual. OpenBLAS and OpenMP get one thread, which is faster on few rows. RuntimeError if NumPy was imported
    before.
    """
    if "numpy" in sys.modules:
        raise RuntimeError("NumPy was imported before a stage could choose its instructions")
    os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
    if processor_flags() >= X86_64_V3:
        # NumPy accepts one of both variables
        os.environ.pop("NPY_DISABLE_CPU_FEATURES", None)
        os.environ.update(PINNED)


def processor_flags() -> frozenset[str]:
    """Return the names of this processor's instruction sets, such as "avx2"; empty if Linux lists none."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset())


def prepare_command() -> None:
    """Collect garbage rarely, and use one thread of OpenBLAS unless set; call it before NumPy is imported."""
    # unless the user sets another number
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collect_rarely()


def collect_rarely() -> None:
    """Collect garbage only after 100,000 new objects; the default takes 5 to 10 % of a process's time."""
    gc.set_threshold(100_000, 50, 50)
