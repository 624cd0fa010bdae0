"""What ``perfjudge labels`` does: read, compute, print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from data.comparisons import formats
from data.comparisons.labels.consensus import consensus, disagreements, people
from data.comparisons.tables import ComparisonTables
from data.plain_text import visible
from data.tables.cells import written_csv
from data.tables.problems import Problems
from serving.answering import write
from serving.comparisons.command import read_source
from serving.comparisons.evaluated import rule_under
from serving.comparisons.labels.doubted import doubted
from serving.comparisons.labels.to_label import NEXT, ToLabel, champion
from serving.pages.tables import tabulated

#: Disagreements that a table shows; JSON has all.
_SHOWN = 20
_NUMBERS = {
    "probability": ".3f",
    "doubt": ".3f",
    "sensitivity": ".3f",
    "specificity": ".4f",
    "agreement": ".3f",
}


def give_next(
    source: Path, number: int, uri: str | None, *, keep_going: bool, as_json: bool, output: Path | None
) -> int:
    """Print what to label next, or write it as a CSV file to fill in.

    Raises
    ------
    InputError
        If the source cannot be read, or there is no such model.
    """
    chosen = ToLabel.of(_read(source, keep_going=keep_going), champion(uri), rule_under()).first(number)
    if output is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        blank = chosen.drop(columns="probability").assign(status="", annotator="", labelled_at=now)
        order = ["comparison_id", "status", "annotator", "labelled_at", "operation", "versions", "why"]
        about = blank[order[4:]].map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
        # as bytes: identifiers stay as they are, so that the labels find their comparisons
        write(written_csv(blank[order[:4]].join(about)).encode(), output)
        return 0
    write(_json(chosen) if as_json else _table(chosen, NEXT), None)
    return 0


def give_suspects(project: Path, number: int, *, as_json: bool) -> int:
    """Print the labels to look at again; InputError if the stages' files are not there."""
    found = doubted(project)
    rows = pd.DataFrame([asdict(one) for one in found[:number]])
    if as_json:
        write(_json(rows), None)
        return 0
    caption = f"{len(found)} labels to look at again"
    shown = rows.assign(why=[f"{'; '.join(one.why)}" for one in found[:number]]) if len(rows) else rows
    write(_table(shown, tuple(shown.columns), caption), None)
    return 0


def give_people(source: Path, *, keep_going: bool, as_json: bool) -> int:
    """Print how reliable people are and where they don't agree; InputError if the source cannot be read."""
    labels = _read(source, keep_going=keep_going).labels
    status = consensus(labels, rule_under())
    who, divided = people(labels, status), disagreements(labels, status)
    if as_json:
        content = {"people": json.loads(_json(who)), "disagreements": json.loads(_json(divided))}
        write(json.dumps(content, indent=2) + "\n", None)
        return 0
    if who.empty:
        write("No comparison is labelled by two people.\n", None)
        return 0
    write(_table(who, tuple(who.columns), "how reliable people are (Dawid and Skene)"), None)
    caption = f"{len(divided)} comparisons on which they don't agree"
    write(_table(divided.head(_SHOWN), tuple(divided.columns), caption), None)
    return 0


def _read(source: Path, *, keep_going: bool) -> ComparisonTables:
    return read_source(formats.sniff(source), [source], Problems(keep_going))


def _json(table: pd.DataFrame) -> str:
    text: str = table.to_json(orient="records", indent=2)
    return text + "\n"


def _table(table: pd.DataFrame, columns: Sequence[str], caption: str | None = None) -> str:
    rows = [
        [_told(name, value) for name, value in zip(columns, row, strict=True)] for row in table.to_numpy()
    ]
    return tabulated(columns, rows, numbers=_NUMBERS, caption=caption)


def _told(column: str, value: Any) -> str:
    return "" if pd.isna(value) else format(value, _NUMBERS.get(column, ""))
