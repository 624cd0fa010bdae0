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


def run(verb: str, stage_of: Callable[[str], Stage | None]) -> None:
    """Run a stage for the families that the command line names.

    Parameters
    ----------
    verb : str
        For the usage message.
    stage_of : callable
        Returns what a family supplies for this verb; None where it has no such stage.
    """
    keep_bytecode()
    collect_rarely()
    stages = {family: stage for family in FAMILIES if (stage := stage_of(family)) is not None}
    parser = argparse.ArgumentParser(prog=verb)
    parser.add_argument("families", metavar="FAMILY", nargs="+", choices=stages, help=", ".join(stages))
    for family in parser.parse_args().families:
        with alone(family):
            guard(stages[family])


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
