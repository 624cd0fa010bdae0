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

    It takes the suite's path, the directory for results and a `Screen` (notes and a progress bar), and
    returns False after Ctrl-C, else True. InputError if the file `path` cannot be read or is not YAML, or its
    kind is missing or unknown; the rest of the suite is not checked.
    """
    suite = yaml_content(path)
    kind = suite.get("kind") if isinstance(suite, dict) else None
    collectors = {family.suite: family.collect for family in map(family_plugin, FAMILIES) if family.collect}
    if not isinstance(kind, str) or kind not in collectors:
        raise InputError(f"kind={kind!r}: expected {' or '.join(collectors)}", file=path)
    return resolve_name(collectors[kind])


def collect_suite(path: Path, directory: Path) -> bool:
    """Measure or resume the suite in the YAML file `path`, and write its tables to `directory`.

    Notes and a progress bar appear on stderr. Returns False after Ctrl-C (the tables then have the runs
    measured so far), else True, even if runs exceeded their time limit. InputError if the suite is invalid or
    cannot be measured here, `directory` has another measurement, or a program of matrices or co-runs fails.
    """
    measure = find_collector(path)
    with Screen() as screen:
        return measure(path, directory, screen)


def main(suite: Path, directory: Path) -> int:
    """Measure the suite in the YAML file `suite` and write the results to `directory`; return the exit code.

    It is 130 after Ctrl-C, SIGTERM or SIGHUP, with the results so far; else 0, even if runs are missing from
    the results because they exceeded their time limit or failed. If `directory` has a measurement of this
    suite, finished or not, only missing runs are measured. A run that exceeded its limit is missing only if
    the limit is higher now; in suites of fingerprints, and in the trial of an operation of comparisons, it
    counts as failed. Failures in these two kinds of suites are noted. In suites of fingerprints, a failed run
    has no value and is not repeated, but the other runs of its program follow; in suites of comparisons, all
    further runs of the build are left out, and after a failed trial those of the operation. Notes and a
    progress bar appear on stderr. InputError if the suite is invalid or cannot be measured here, `directory`
    has another measurement, or a program of a suite of matrices or co-runs fails.
    """
    # an error before measuring, not after it
    import pyarrow as pa  # noqa: F401 - results are Parquet

    end_in_good_order()
    return 0 if collect_suite(suite, directory) else 130


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    exit_on_error(lambda: sys.exit(main(arguments.suite, arguments.output)))
