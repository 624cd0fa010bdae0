"""Measure a suite on this machine: ``perfjudge collect SUITE.yaml -o DIR``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

from data.errors import InputError
from data.families import FAMILIES, family_plugin
from data.measure.child import end_in_good_order
from data.measure.session import Screen
from data.stage import exit_on_error
from data.tables.files import yaml_content


def find_collector(path: Path) -> Callable[[Path, Path, Screen], bool]:
    """Return the function that measures suites of the same ``kind`` as the YAML file `path`.

    InputError if the file is not YAML, or its kind is missing or unknown; the rest is not checked. The
    function takes the suite's file, the directory for results and a `Screen`; it returns False after an early
    Ctrl-C, else True.
    """
    suite = yaml_content(path)
    kind = suite.get("kind") if isinstance(suite, dict) else None
    collectors = {family.suite: family.collect for family in map(family_plugin, FAMILIES) if family.collect}
    if not isinstance(kind, str) or kind not in collectors:
        raise InputError(f"kind={kind!r}: expected {' or '.join(collectors)}", file=path)
    return resolve_name(collectors[kind])


def main(suite: Path, directory: Path) -> int:
    """Measure the suite in the YAML file `suite` and write the results to `directory`; return the exit code.

    It is 130 after Ctrl-C, SIGTERM or SIGHUP, with the results so far; else 0, even if some runs exceeded
    their time limit or failed. If `directory` has a measurement of this suite, only missing runs are
    measured, and those over their time limit if the limit is higher now. Notes and a progress bar appear on
    stderr. InputError if the suite is invalid or cannot be measured here, `directory` has another
    measurement, a program of a suite of matrices or co-runs fails, or nothing could be measured.
    """
    # an error before measuring, not after it
    import pyarrow as pa  # noqa: F401 - results are Parquet

    end_in_good_order()
    measure = find_collector(suite)
    with Screen() as screen:
        return 0 if measure(suite, directory, screen) else 130


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    exit_on_error(lambda: sys.exit(main(arguments.suite, arguments.output)))
