"""What was compared, as whoever reads it wants it: a table, a comment in Markdown, JUnit XML, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from data.comparisons.pair import listed
from data.comparisons.pair import told as told_missing
from data.errors import one_line, visible
from serving.comparisons import render
from serving.comparisons.compare.rows import OUTCOMES, QUIET, ComparedRow, ComparedSides
from serving.reports.text_tables import cell, printed, prose, shown
from serving.reports.verdict_lines import Lines, as_junit

if TYPE_CHECKING:
    from rich.table import Table

#: A comment holds 65,536 characters at GitHub; what does not matter most is left out of longer ones.
_LONGEST = 60_000
_MARKS = {
    "regression": "red",
    "unsure": "magenta",
    "improvement": "cyan",
    "acknowledged": "yellow",
    "invalid": "yellow",
    "within_noise": "green",
    "unchanged": "green",
}


def marker(name: str) -> str:
    """Return the line by which a comment is found that the next one replaces."""
    return f"<!-- perfjudge compare {visible(' '.join(name.replace('--', '').split()))} -->"


def as_comment(compared: ComparedSides, name: str) -> str:
    """Return a comment in Markdown: what matters as a table, the rest folded."""
    marked = [row for row in compared.ordered if row.outcome not in QUIET]
    rest = compared.ordered[len(marked) :]
    head = [marker(name), f"### perfjudge: {compared.summary}", ""]
    told = [*head, *_fitting(compared, marked, _LONGEST // 2)]
    told += [f"- {prose(line)}" for line in _further(compared)]
    if rest:
        table = _fitting(compared, rest, _LONGEST - sum(len(line) + 1 for line in told))
        many = ", ".join(f"{compared.counts[kind]} {OUTCOMES[kind]}" for kind in OUTCOMES
                         if kind in QUIET and compared.counts[kind])  # fmt: skip
        told += ["", f"<details><summary>{many}</summary>", "", *table, "", "</details>"]
    summary = prose(render.summary(compared.weighed.judgement))
    return "\n".join([*told, "", f"<sub>{summary}</sub>"]) + "\n"


def as_table(compared: ComparedSides, *, terminal: bool) -> str:
    """Return a table for a terminal of this width, or a wide one without colours."""
    notes = "".join(f"{one_line(note)}\n" for note in compared.notes)
    if not terminal:
        return printed(_table(compared)) + notes
    from rich.console import Console

    console = Console()
    with console.capture() as captured:
        console.print(_table(compared))
    return captured.get() + notes


def as_cases(compared: ComparedSides) -> str:
    """Return JUnit XML: a regression fails, what is unsure, invalid or acknowledged is skipped."""
    rows = [row.line(_which(compared, row) or row.verdict.comparison_id) for row in compared.ordered]
    headings, notes = ("benchmark", "operation", "reasons"), compared.notes
    return as_junit(Lines(rows, headings, compared.summary, notes, notes))


def as_answer(compared: ComparedSides) -> str:
    """Return the JSON of any judgement, and beside it what a comparison of runs knows."""
    content = json.loads(render.as_json(compared.weighed.judgement))
    for verdict, row in zip(content["verdicts"], compared.rows, strict=True):
        verdict |= {
            "outcome": row.outcome,
            "model_verdict": row.judged,
            "machine": row.machine,
            "unit": row.unit,
            "versions": row.versions,
            "target_operation": row.matched or verdict["operation"],
            "faster": row.move._asdict() if row.outcome == "improvement" and row.move else None,
            "acknowledged": None if row.excuse is None else asdict(row.excuse),
        }
    content["notes"] = list(compared.notes)
    content["missing"] = [{"kind": one.kind, **asdict(one)} for one in compared.missing]
    content["counts"] = {kind: compared.counts[kind] for kind in OUTCOMES}
    content["whole_run"] = compared.weighed.whole
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _further(compared: ComparedSides) -> Iterator[str]:
    """Yield what vanished, what is new, and what else is to be known, a line each."""
    alone = {*told_missing(compared.missing, compared.sides)}
    for side, told in (("baseline", "vanished"), ("target", "new")):
        own = [str(one) for one in compared.missing if one.only_in == side]
        if own:
            yield f"{told}: {listed(own)}"
    yield from (note for note in compared.notes if note not in alone)


def _which(compared: ComparedSides, row: ComparedRow) -> str:
    return compared.named[row.verdict.comparison_id]


def _columns(compared: ComparedSides) -> Sequence[str]:
    which = ["comparison"] if any(compared.named.values()) else []
    threads = ["configuration"] if compared.threaded else []
    return ["", "operation", *which, *threads, "baseline", "target", "change", "p", "why"]


def _cells(compared: ComparedSides, row: ComparedRow) -> list[str]:
    which = [_which(compared, row)] if any(compared.named.values()) else []
    threads = [row.configuration] if compared.threaded else []
    return [row.label, row.name, *which, *threads, *row.medians, row.change, row.chance, row.why]


def _fitting(compared: ComparedSides, rows: Sequence[ComparedRow], room: int) -> list[str]:
    """Return a table of as many rows as there is room for, and how many more there are."""
    if not rows:
        return []
    columns = _columns(compared)
    told = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for number, row in enumerate(rows):
        marked, *others = map(cell, _cells(compared, row))
        line = f"| {marked if row.outcome in QUIET else f'**{marked}**'} | {' | '.join(others)} |"
        room -= len(line) + 1
        if room < 0:
            return [*told, "", f"and {len(rows) - number} more", ""]
        told.append(line)
    return [*told, ""]


def _table(compared: ComparedSides) -> Table:
    from rich.table import Table

    table = Table(*_columns(compared), caption=shown(render.summary(compared.weighed.judgement)))
    for row in compared.ordered:
        first, *others = _cells(compared, row)
        table.add_row(shown(first, _MARKS[row.outcome]), *map(shown, others))
    return table
