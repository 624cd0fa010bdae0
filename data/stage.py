"""What every stage shares: a family's name on the command line, bad input as one line and exit 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from data.errors import InputError

FAMILIES = ("comparisons", "fingerprints", "corun", "matrices")


def run_family(verb: str, package: str) -> None:
    """Run ``<package>.<family>.<verb>_stage()`` for the family that the command line names."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}.{verb}")
    parser.add_argument("family", choices=FAMILIES)
    family = parser.parse_args().family
    guard(getattr(import_module(f"{package}.{family}"), f"{verb}_stage"))


def guard(main: Callable[[], Any]) -> None:
    """Call `main`; end with exit code 2 and one line on stderr if its input is bad."""
    try:
        main()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
