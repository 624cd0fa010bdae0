"""What every stage shares: a family's name on the command line, one line where it fails."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from data.ending import end

FAMILIES = ("comparisons", "fingerprints", "corun", "matrices")


def run_family(verb: str, package: str) -> None:
    """Run ``<package>.<family>.<verb>_stage()`` for the family that the command line names."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}.{verb}")
    parser.add_argument("family", choices=FAMILIES)
    family = parser.parse_args().family
    guard(partial(_run, verb, f"{package}.{family}"))


def _run(verb: str, module: str) -> None:
    getattr(import_module(module), f"{verb}_stage")()


def guard(main: Callable[[], Any]) -> None:
    """Call `main`; end with one line on stderr and the exit code of `data.ending` if that fails."""
    try:
        main()
    except Exception as error:  # noqa: BLE001 - the net below every stage
        sys.exit(end(error))
