"""What was compared as rows for people, those first that want attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from data.comparisons.pair import MatchedOperations, Missing, counted
from data.comparisons.tables import OPERATION, ComparisonTables, units
from serving.comparisons.compare.acknowledging import Excuse
from serving.comparisons.compare.weighing import Outcome, Weighed, outcome_of
from serving.comparisons.explain.facts import Direction, direction
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import shifted
from serving.comparisons.judge import Verdict
from serving.comparisons.moves import Move
from serving.reports.verdict_lines import VerdictLine

#: In the order in which they want attention, and what several are called.
OUTCOMES: dict[Outcome, str] = {
    "regression": "regressions",
    "unsure": "unsure",
    "improvement": "improvements",
    "acknowledged": "acknowledged",
    "invalid": "invalid",
    "within_noise": "within noise",
    "unchanged": "unchanged",
}
#: Nobody has to look at these.
QUIET: frozenset[Outcome] = frozenset({"within_noise", "unchanged"})


@dataclass(frozen=True)
class ComparedRow:
    """One comparison.

    Attributes
    ----------
    outcome : Outcome
    judged : {"pass", "fail", "unsure", "invalid"}
        What the model alone says.
    verdict : Verdict
    machine, unit, versions : str
    direction : Direction
    move : Move or None
        What the configuration that counts did: what got better most of an improvement, else the worst.
    excuse : Excuse or None
        Why it need not fail a build.
    hidden : float
        The smallest change that its samples show, as a share; NaN if that is not known.
    matched : str
        The target's name of the operation, where that is another one.
    """

    outcome: Outcome
    judged: str
    verdict: Verdict
    machine: str
    unit: str
    versions: str
    direction: Direction
    move: Move | None
    excuse: Excuse | None
    hidden: float
    matched: str = ""

    @property
    def operation(self) -> str:
        """The operation, with both names where the target has another one."""
        return f"{self.verdict.operation} -> {self.matched}" if self.matched else self.verdict.operation

    @property
    def label(self) -> str:
        """The outcome in words."""
        return self.outcome.replace("_", " ")

    @property
    def chance(self) -> str:
        """The probability of a regression; empty if nothing gave one."""
        asked = self.outcome != "within_noise" or self.verdict.decided_by == "model"
        return "" if self.verdict.probability is None or not asked else f"{self.verdict.probability:.3f}"

    @property
    def name(self) -> str:
        """Benchmark and operation."""
        return f"{self.verdict.benchmark}/{self.operation}"

    @property
    def medians(self) -> tuple[str, str]:
        """Baseline's and target's median with their unit; empty if they are not known."""
        if self.move is None:
            return "", ""
        before, after = self.move.baseline_median, self.move.target_median
        return self._measured(before), self._measured(after)

    @property
    def change(self) -> str:
        """How far the median moved, in percent and in words."""
        return "" if self.move is None else shifted(self.move.change, self.direction)

    @property
    def configuration(self) -> str:
        """What moved."""
        return "" if self.move is None else counted(self.move.threads, "thread")

    @property
    def why(self) -> str:
        """Why it is what it is: whoever excused it, what the verdict rests on, and what would flip it."""
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

    def line(self, which: str) -> VerdictLine:
        """Return the same for JUnit XML."""
        one, excuse = self.verdict, "" if self.excuse is None else self.excuse.told
        told = [f"{before} -> {after}" for before, after in (self.medians,) if before]
        return VerdictLine(
            one.verdict,
            one.probability,
            one.benchmark,
            self.operation,
            "; ".join(filter(None, (self.change, *told, self.configuration, self.why))),
            which=which,
            excused=excuse,
        )

    def _measured(self, value: float) -> str:
        return f"{value:.4g} {self.unit}".rstrip()


@dataclass(frozen=True)
class ComparedSides:
    """All that is to be said of two sides.

    Attributes
    ----------
    rows : tuple of ComparedRow
        In the order of the comparisons.
    weighed : Weighed
    tables : ComparisonTables
    missing : tuple of Missing
    sides : tuple of str
        What the two are called.
    notes : tuple of str
    """

    rows: tuple[ComparedRow, ...]
    weighed: Weighed
    tables: ComparisonTables
    missing: tuple[Missing, ...]
    sides: tuple[str, str]
    notes: tuple[str, ...]

    @cached_property
    def ordered(self) -> Sequence[ComparedRow]:
        """The rows, those first that want attention, and of a kind those that moved most."""
        kinds = list(OUTCOMES)
        return sorted(self.rows, key=lambda row: (kinds.index(row.outcome), -_size(row)))

    @cached_property
    def counts(self) -> Counter[Outcome]:
        """How many rows are what."""
        return Counter(row.outcome for row in self.rows)

    @property
    def summary(self) -> str:
        """How many are what, in a few words."""
        told = [_counted(kind, self.counts[kind]) for kind in OUTCOMES if self.counts[kind]]
        return f"{', '.join(told)} of {counted(len(self.rows), 'comparison')}"

    @cached_property
    def named(self) -> dict[str, str]:
        """What tells a comparison from others, by its id: machine and versions, where these are several."""
        several = [len({getattr(row, name) for row in self.rows}) > 1 for name in ("machine", "versions")]
        return {
            row.verdict.comparison_id: ", ".join(
                told for told, needed in zip((row.machine, row.versions), several, strict=True) if needed
            )
            for row in self.rows
        }

    @property
    def threaded(self) -> bool:
        """Whether anything was measured on several threads."""
        return any(row.move is not None and row.move.threads > 1 for row in self.rows)


def rows_of(
    weighed: Weighed,
    tables: ComparisonTables,
    spans: Sequence[str],
    excuses: Sequence[Excuse | None],
    matched: MatchedOperations,
) -> Iterator[ComparedRow]:
    """Yield what is to be said of each comparison, in their order; `spans` has its versions."""
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


def _size(row: ComparedRow) -> float:
    return 0.0 if row.move is None else abs(row.move.change)


def _counted(kind: Outcome, number: int) -> str:
    singular = {"regression", "improvement"}
    return counted(number, kind) if kind in singular else f"{number} {OUTCOMES[kind]}"
