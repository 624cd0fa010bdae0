"""Measuring here: ``perfjudge collect SUITE.yaml -o DIR``."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from data import suite as suites
from data.comparison_collector import Laboratory, measure
from data.files import write_json
from data.journal import Journal
from data.machine import settings
from data.truth import tables


def collect(suite_path: Path, directory: Path) -> bool:
    """Measure a suite into `directory`, resuming what is there; write the tables of what is complete.

    Returns
    -------
    bool
        Whether everything was measured; False after Ctrl-C.

    Raises
    ------
    InputError
        If the suite is wrong or a program is missing.
    """
    suite = suites.load(suite_path)
    journal = Journal.open(directory / "journal.jsonl", suite.model_dump(mode="json"))
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    finished = True
    with (
        Laboratory(suite) as laboratory,
        Progress(*columns, console=console, disable=not console.is_terminal) as bar,
    ):
        for change, why in laboratory.missing.items():
            console.print(f"leaving out versions by {change}: {why}")
        line = bar.add_task("measuring", total=None)
        try:
            measure(
                suite,
                journal,
                laboratory,
                lambda done, of, what: bar.update(line, completed=done, total=of, description=what),
            )
        except KeyboardInterrupt:
            finished = False
            console.print(f"kept {len(journal.entries)} repetitions; start again to resume")
        available = laboratory.available
    measured = tables(suite, journal, available)
    measured.tables.write(directory)
    measured.write_reference(directory / "reference.parquet")
    write_json(directory / "settings.json", {"machine": settings(), "suite": suite.model_dump(mode="json")})
    return finished


def main(suite: Path, directory: Path) -> int:
    """Collect and return the exit code: 0 when complete, 130 after Ctrl-C or a request to end."""
    for request in (signal.SIGINT, signal.SIGTERM):
        signal.signal(request, signal.default_int_handler)
    return 0 if collect(suite, directory) else 130


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    sys.exit(main(arguments.suite, arguments.output))
