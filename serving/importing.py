"""Sources of any supported format become the tables of the design."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.tables.formats import TABLES
from data.tables.problems import unknown
from serving.answering import refuse_others, tell_notes, tell_skipped
from serving.supply import Importing, supplies


def import_sources(
    kind: str,
    sources: list[Path],
    directory: Path,
    *,
    keep_going: bool,
    as_json: bool,
    options: Mapping[str, Any],
) -> int:
    """Read `sources`, write their tables to `directory`, and return the exit code.

    Parameters
    ----------
    kind : str
        The format of all sources; with the first of them it decides the family.
    keep_going : bool
        Skip what is bad, say so on stderr, and count it.
    as_json : bool
        Say on standard output what was imported as JSON.
    options : mapping
        Those that were given of the families' own.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless `keep_going`; and if an option is not for what they hold.
    """
    importing = _importing(kind, sources[0])
    refuse_others(options, importing, sources[0])
    counts = importing.read(kind, sources, directory, keep_going=keep_going, **options)
    tell_skipped(counts.skipped)
    tell_notes(counts.notes)
    numbers = {**counts.rows, "skipped": len(counts.skipped)}
    told = ", ".join(f"{count} {name}" for name, count in numbers.items())
    answer = json.dumps(numbers | {"directory": str(directory)}) if as_json else f"{told} -> {directory}"
    sys.stdout.write(answer + "\n")
    return 0


def _importing(kind: str, source: Path) -> Importing:
    """Return how to read a source: the family's that it is of, else the first one's, which takes any."""
    importing = [one.importing for one in supplies() if one.importing is not None]
    known = [(one, one.formats()) for one in importing]
    names = dict.fromkeys(name for _, formats in known for name in formats)
    if kind not in names:
        raise InputError(f'format "{kind}" {unknown(kind, names)}')
    for one, formats in known[1:]:
        # all families have tables, each its own
        if formats[kind].recognises(source) if kind == TABLES else kind in formats:
            return one
    return importing[0]
