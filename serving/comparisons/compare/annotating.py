"""What GitHub shows beside a run of a workflow: annotations, and a page of the step.

The commands are those of "Workflow commands for GitHub Actions" in GitHub's documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Literal

from data.errors import InputError, one_line
from serving.comparisons.compare.rows import ComparedRow, ComparedSides

#: GitHub shows so many of each kind and step.
_MOST = 10
#: The variable that names the file of a step's page.
_PAGE = "GITHUB_STEP_SUMMARY"
_Kind = Literal["error", "warning", "notice"]
_KINDS: dict[str, _Kind] = {
    "regression": "error",
    "unsure": "warning",
    "improvement": "notice",
    "acknowledged": "notice",
}


def annotated(compared: ComparedSides) -> Iterator[str]:
    """Yield a line for each row that matters, and for what vanished; at most so many as are shown."""
    told = [_of_row(row) for row in compared.ordered if row.outcome in _KINDS]
    told += [("warning", "vanished", str(one)) for one in compared.missing if one.only_in == "baseline"]
    told.sort(key=lambda one: ("error", "warning", "notice").index(one[0]))
    for kind, group in groupby(told, key=lambda one: one[0]):
        lines = list(group)
        kept = lines if len(lines) <= _MOST else lines[: _MOST - 1]
        yield from (_line(*line) for line in kept)
        if len(kept) < len(lines):
            yield _line(kind, "perfjudge", f"and {len(lines) - len(kept)} more")


def add_to_page(text: str) -> None:
    """Add Markdown to the page of this step; InputError where there is none."""
    path = os.environ.get(_PAGE)
    if not path:
        raise InputError(f"the variable {_PAGE} is not set; GitHub sets it in a step of a workflow")
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be written", file=path) from exc


def _of_row(row: ComparedRow) -> tuple[_Kind, str, str]:
    medians = " -> ".join(filter(None, row.medians))
    told = "; ".join(filter(None, (medians, row.why)))
    return _KINDS[row.outcome], f"{row.outcome}: {row.name} {row.change}", told


def _line(kind: str, title: str, message: str) -> str:
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={escaped}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return "%0A".join(one_line(line).replace("%", "%25") for line in text.splitlines())
