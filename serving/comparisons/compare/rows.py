"""What was compared as rows for people, those first that want attention."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from data.comparisons.pair import MatchedOperations, Missing, counted, listed
from data.comparisons.pair import told as told_missing
from data.comparisons.tables import OPERATION, ComparisonTables, units
from data.errors import InputError, one_line, visible
from serving.comparisons import render
from serving.comparisons.compare.acknowledging import Excuse
from serving.comparisons.compare.weighing import Outcome, Weighed, outcome_of
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import Direction, direction, shifted
from serving.comparisons.judge import Move, Verdict
from serving.reports.text_tables import cell, printed, prose, shown
from serving.reports.verdict_lines import Lines, VerdictLine, as_junit

if TYPE_CHECKING:
    from rich.table import Table

#: In the order in which they want attention: the plural, and the colour on a terminal.
OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "regression": ("regressions", "red"),
    "unsure": ("unsure", "magenta"),
    "improvement": ("improvements", "cyan"),
    "acknowledged": ("acknowledged", "yellow"),
    "invalid": ("invalid", "yellow"),
    "within_noise": ("within noise", "green"),
    "unchanged": ("unchanged", "green"),
}
#: Outcomes that need no attention.
QUIET: frozenset[Outcome] = frozenset({"within_noise", "unchanged"})


@dataclass(frozen=True)
class ComparedRow:
    """One comparison."""

    outcome: Outcome
    judged: str  # one of "pass", "fail", "unsure", "invalid", what the model alone says
    verdict: Verdict
    machine: str
    unit: str
    versions: str
    direction: Direction
    #: what the configuration that counts did: what got better most of an improvement, else the worst
    move: Move | None
    excuse: Excuse | None  # why it need not fail a build
    hidden: float  # the smallest change that its samples show, as a share; NaN if that is not known
    matched: str = ""  # the target's name of the operation, where that is another one

    @property
    def operation(self) -> str:
        """The operation, with both names where the target has another one."""
        return f"{self.verdict.operation} -> {self.matched}" if self.matched else self.verdict.operation

    @property
    def shown_probability(self) -> str:
        """The probability of a regression; empty where nothing gave one."""
        model_decided = self.outcome != "within_noise" or self.verdict.decided_by == "model"
        probability = self.verdict.probability if model_decided else None
        return "" if probability is None else f"{probability:.3f}"

    @property
    def name(self) -> str:
        """Benchmark and operation."""
        return f"{self.verdict.benchmark}/{self.operation}"

    @property
    def medians(self) -> tuple[str, str]:
        """Baseline's and target's median with their unit; empty if they are not known."""
        if self.move is None:
            return "", ""
        before, after = (
            f"{value:.4g} {self.unit}".rstrip()
            for value in (self.move.baseline_median, self.move.target_median)
        )
        return before, after

    @property
    def change(self) -> str:
        """The change of the median in percent and in words."""
        return "" if self.move is None else shifted(self.move.change, self.direction)

    @property
    def configuration(self) -> str:
        """The configuration of `move`."""
        return "" if self.move is None else counted(self.move.threads, "thread")

    @property
    def why(self) -> str:
        """The reasons of the outcome: its excuse, the grounds of the verdict, and what would flip it."""
        one = self.verdict
        if one.invalid_reason is not None:
            return one.invalid_reason
        if self.outcome == "improvement":
            return "; ".join(one.words[:1])
        if self.outcome in QUIET:
            return "; ".join((*one.remarks, *self._noise()))
        excused = () if self.excuse is None else (self.excuse.told,)
        flip = one.flip if self.outcome in {"regression", "unsure"} and self.judged == one.verdict else ""
        strange = "" if one.unlike is None else one.unlike.words
        return "; ".join(filter(None, (*excused, *one.remarks, *one.words, flip, strange)))

    def _noise(self) -> Sequence[str]:
        """Say which noise a change lies within: that of the samples, or what the model goes by."""
        if self.outcome == "unchanged" or self.move is None:
            return ()
        if abs(self.move.change) <= self.hidden:
            return (f"changes below {percent(self.hidden)} cannot be told from the scatter of these samples",)
        return self.verdict.words if self.verdict.decided_by == "model" else ()

    def junit_line(self, which: str) -> VerdictLine:
        """Return the row for JUnit XML; `which`: its name among rows of one operation."""
        medians = [" -> ".join(self.medians)] if self.move is not None else []
        return VerdictLine(
            self.verdict.verdict,
            self.verdict.probability,
            self.verdict.benchmark,
            self.operation,
            "; ".join(filter(None, (self.change, *medians, self.configuration, self.why))),
            which=which,
            excused="" if self.excuse is None else self.excuse.told,
        )


@dataclass(frozen=True)
class ComparedSides:
    """All that is to be said of two sides."""

    rows: tuple[ComparedRow, ...]  # in the order of the comparisons
    weighed: Weighed
    tables: ComparisonTables
    missing: tuple[Missing, ...]
    sides: tuple[str, str]  # what the two are called
    notes: tuple[str, ...]

    @cached_property
    def ordered(self) -> Sequence[ComparedRow]:
        """The rows in the order of `OUTCOMES`, rows of one outcome by the size of their change."""
        kinds = list(OUTCOMES)
        return sorted(
            self.rows,
            key=lambda row: (kinds.index(row.outcome), -abs(row.move.change) if row.move else 0.0),
        )

    @cached_property
    def counts(self) -> Counter[Outcome]:
        """The number of rows by outcome."""
        return Counter(row.outcome for row in self.rows)

    @property
    def summary(self) -> str:
        """The number of rows by outcome in words."""
        counts = [
            f"{many} {OUTCOMES[kind][0] if many > 1 else kind.replace('_', ' ')}"
            for kind in OUTCOMES
            if (many := self.counts[kind])
        ]
        return f"{', '.join(counts)} of {counted(len(self.rows), 'comparison')}"

    @cached_property
    def named(self) -> dict[str, str]:
        """Machine and versions of each comparison by its id, where the rows have several."""
        several = [len({getattr(row, name) for row in self.rows}) > 1 for name in ("machine", "versions")]
        return {
            row.verdict.comparison_id: ", ".join(
                told for told, needed in zip((row.machine, row.versions), several, strict=True) if needed
            )
            for row in self.rows
        }

    @cached_property
    def columns(self) -> Sequence[str]:
        """Headings of a table of the rows."""
        threaded = any(row.move is not None and row.move.threads > 1 for row in self.rows)
        which = ["comparison"] if any(self.named.values()) else []
        threads = ["configuration"] if threaded else []
        return ["", "operation", *which, *threads, "baseline", "target", "change", "p", "why"]

    def cells(self, row: ComparedRow) -> list[str]:
        """Return the cells of a row under `columns`."""
        cells = {
            "": row.outcome.replace("_", " "),
            "operation": row.name,
            "comparison": self.named[row.verdict.comparison_id],
            "configuration": row.configuration,
            "baseline": row.medians[0],
            "target": row.medians[1],
            "change": row.change,
            "p": row.shown_probability,
            "why": row.why,
        }
        return [cells[column] for column in self.columns]


def rows_of(
    weighed: Weighed,
    tables: ComparisonTables,
    spans: Sequence[str],
    excuses: Sequence[Excuse | None],
    matched: MatchedOperations,
) -> Iterator[ComparedRow]:
    """Yield a row for each comparison, in their order; `spans`: the versions of each."""
    signs = tables.results.drop_duplicates(OPERATION).set_index(OPERATION)["better"]
    columns = zip(units(tables), spans, tables.comparisons["machine"], strict=True)
    for row, (unit, span, machine) in enumerate(columns):
        verdict, excuse = weighed.judgement.verdicts[row], excuses[row]
        outcome = outcome_of(verdict, row, weighed, acknowledged=excuse is not None)
        better = signs[(verdict.benchmark, verdict.operation, machine)]
        yield ComparedRow(
            outcome,
            str(weighed.judged[row]),
            verdict,
            machine,
            "" if unit == "unknown" else unit,
            span,
            direction(unit, -1.0 if better == "lower" else 1.0),
            weighed.faster.get(row, verdict.moved),
            excuse,
            float(weighed.hidden[row]),
            matched.name_in_target(verdict.benchmark, verdict.operation),
        )


#: A comment holds 65,536 characters at GitHub; what does not matter most is left out of longer ones.
_LONGEST = 60_000


def as_comment(compared: ComparedSides, name: str) -> str:
    """Return a comment in Markdown: rows that need attention as a table, the others folded.

    The first line is a marker by which the next comment of this `name` finds and replaces this one.
    """
    marked = [row for row in compared.ordered if row.outcome not in QUIET]
    rest = compared.ordered[len(marked) :]
    marker = f"<!-- perfjudge compare {visible(' '.join(name.replace('--', '').split()))} -->"
    head = [marker, f"### perfjudge: {compared.summary}", ""]
    told = [*head, *_fitting(compared, marked, _LONGEST // 2)]
    told += [f"- {prose(line)}" for line in _further(compared)]
    if rest:
        table = _fitting(compared, rest, _LONGEST - sum(len(line) + 1 for line in told))
        quiet = (kind for kind in OUTCOMES if kind in QUIET and compared.counts[kind])
        many = ", ".join(f"{compared.counts[kind]} {OUTCOMES[kind][0]}" for kind in quiet)
        told += ["", f"<details><summary>{many}</summary>", "", *table, "", "</details>"]
    summary = prose(render.summary(compared.weighed.judgement))
    return "\n".join([*told, "", f"<sub>{summary}</sub>"]) + "\n"


def as_table(compared: ComparedSides, *, terminal: bool) -> str:
    """Return a table for a terminal of this width, or a wide one without colours."""
    notes = "".join(f"{one_line(note)}\n" for note in compared.notes)
    return printed(_table(compared), terminal=terminal) + notes


def as_cases(compared: ComparedSides) -> str:
    """Return JUnit XML: a regression fails, what is unsure, invalid or acknowledged is skipped."""
    names = compared.named
    rows = [
        row.junit_line(names[row.verdict.comparison_id] or row.verdict.comparison_id)
        for row in compared.ordered
    ]
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


def _fitting(compared: ComparedSides, rows: Sequence[ComparedRow], room: int) -> list[str]:
    """Return a table of as many rows as there is room for, and how many more there are."""
    if not rows:
        return []
    columns = compared.columns
    told = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for number, row in enumerate(rows):
        marked, *others = map(cell, compared.cells(row))
        line = f"| {marked if row.outcome in QUIET else f'**{marked}**'} | {' | '.join(others)} |"
        room -= len(line) + 1
        if room < 0:
            return [*told, "", f"and {len(rows) - number} more", ""]
        told.append(line)
    return [*told, ""]


def _table(compared: ComparedSides) -> Table:
    from rich.table import Table

    table = Table(*compared.columns, caption=shown(render.summary(compared.weighed.judgement)))
    for row in compared.ordered:
        first, *others = compared.cells(row)
        table.add_row(shown(first, OUTCOMES[row.outcome][1]), *map(shown, others))
    return table


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
    told: list[tuple[_Kind, str, str]] = []
    for row in compared.ordered:
        if row.outcome in _KINDS:
            message = "; ".join(filter(None, (" -> ".join(filter(None, row.medians)), row.why)))
            told.append((_KINDS[row.outcome], f"{row.outcome}: {row.name} {row.change}", message))
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


def _line(kind: str, title: str, message: str) -> str:
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={escaped}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return "%0A".join(one_line(line).replace("%", "%25") for line in text.splitlines())
