"""What every stage shares: families' names on the command line, one line where it fails."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

from data.ending import end
from data.families import FAMILIES
from data.orphans import alone

#: A stage reads files, calls pure functions and writes files, all below the working directory.
Stage = Callable[[], None]
#: Where compiled modules are kept if they may not lie beside their source.
BYTECODE = Path(".bytecode")
#: The instruction sets that x86-64-v3 adds, as Linux lists them ("abm" has lzcnt).
X86_64_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
#: By which variables libraries are restricted to them.
PINNED = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_ENABLE_CPU_FEATURES": "X86_V3",
    "ARROW_USER_SIMD_LEVEL": "AVX2",
}


def run(verb: str, stage_of: Callable[[str], Stage | None]) -> None:
    """Run a stage for the families that the command line names.

    Parameters
    ----------
    verb : str
        For the usage message.
    stage_of : callable
        Returns what a family supplies for this verb; None where it has no such stage.
    """
    prepare_process()
    stages = {family: stage for family in FAMILIES if (stage := stage_of(family)) is not None}
    parser = argparse.ArgumentParser(prog=verb)
    parser.add_argument("families", metavar="FAMILY", nargs="+", choices=stages, help=", ".join(stages))
    for family in parser.parse_args().families:
        with alone(family):
            guard(stages[family])


def prepare_process() -> None:
    """Set up a process for a stage, before it imports NumPy."""
    keep_bytecode()
    pin_arithmetic()
    collect_rarely()


def keep_bytecode() -> None:
    """Keep compiled modules in a folder of their own where PYTHONDONTWRITEBYTECODE is set.

    Each stage and each of its processes would compile pandas and scikit-learn anew, which takes longer than
    most stages do.
    """
    if sys.dont_write_bytecode:
        place = str(BYTECODE.resolve())
        sys.dont_write_bytecode, sys.pycache_prefix = False, place
        # for the processes that fit models side by side
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = place


def pin_arithmetic() -> None:
    """Restrict NumPy, SciPy and Arrow to the instructions of x86-64-v3 in this process and its children.

    These libraries choose their loops when they are loaded, by the instructions of the processor: sums are
    added in another order, logarithms differ in the last bit, and an unstable sort orders equal keys
    differently. Nearly all x86-64 processors since 2015 have the instructions of x86-64-v3, and compute the
    same bits with them. OpenBLAS gets one thread, as it would take one per processor. Where an instruction is
    missing, or on another architecture, the libraries choose as usual.

    Raises
    ------
    RuntimeError
        If NumPy has been imported: it would keep the loops that it has chosen.
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
    """Look for garbage in cycles every 100,000 objects.

    A stage ends soon; looking as often as Python does by itself takes a twentieth of it.
    """
    gc.set_threshold(100_000, 50, 50)


def guard(stage: Stage) -> None:
    """Call `stage`; end with one line on stderr and the exit code of `data.ending` if that fails."""
    try:
        stage()
    except Exception as error:  # noqa: BLE001 - the net below every stage
        sys.exit(end(error))
