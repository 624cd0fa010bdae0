"""Sources of any supported format become the tables of the design."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from data.importing import import_tables
from serving.answering import tell_skipped


def import_sources(
    kind: str, sources: list[Path], directory: Path, *, keep_going: bool, as_json: bool
) -> int:
    """Read `sources`, write the three tables to `directory`, and return the exit code.

    Parameters
    ----------
    kind : str
        The format of all sources.
    keep_going : bool
        Skip what is bad, say so on stderr, and count it.
    as_json : bool
        Say on standard output what was imported as JSON.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless `keep_going`.
    """
    imported = import_tables(kind, sources, directory, keep_going=keep_going)
    tell_skipped(imported.skipped)
    counts = {
        "comparisons": imported.comparisons,
        "results": imported.results,
        "labels": imported.labels,
        "skipped": len(imported.skipped),
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    answer = json.dumps(counts | {"directory": str(directory)}) if as_json else f"{told} -> {directory}"
    sys.stdout.write(answer + "\n")
    return 0
