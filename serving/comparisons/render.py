"""A judgement of comparisons as text: JSON, or the lines of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from json.encoder import encode_basestring_ascii as _quoted

from data.comparisons.pair import counted
from serving.comparisons.explain.explanations import NearestExample, Reason
from serving.comparisons.judge import Judgement, Move, Verdict
from serving.comparisons.promises import decided_answer, line
from serving.reports.verdict_lines import Answer, Lines, VerdictLine
from training.evaluation.thresholds import DecisionPolicy

#: Of more comparisons a server does not look for what would flip them, which takes most of the time.
FLIPPED = 100
UNFLIPPED = f"what would flip a verdict is told in answers of up to {FLIPPED} comparisons"


def as_json(judgement: Judgement, *, flipped: bool = True) -> str:
    """Return the answer of the design's contract as one JSON document, a verdict a line.

    `flipped`: whether to look for what would flip the verdicts; a note tells where not.
    """
    card = judgement.card
    about = {"contribution_unit": judgement.unit, "floor": card.floor, "decided": decided_answer(card)}
    model = json.dumps({**asdict(judgement.model), **about}, allow_nan=False)
    verdicts = ",\n  ".join(_verdict(one, flipped) for one in judgement.told())
    listed = f"[\n  {verdicts}\n]" if verdicts else "[]"
    notes = json.dumps((*judgement.notes, *(() if flipped else (UNFLIPPED,))))
    return f'{{"model": {model},\n"verdicts": {listed},\n"notes": {notes}}}\n'


def lines(judgement: Judgement, versions: Sequence[str]) -> Lines:
    """Return the verdicts as lines of a table, a benchmark a suite; `versions` says those of each."""
    rows = [
        VerdictLine(
            one.verdict, one.probability, one.benchmark, one.operation, _why(one), one.remarks, which=which
        )
        for one, which in zip(judgement.verdicts, _which(judgement, versions), strict=True)
    ]
    headings, notes = ("benchmark", "operation", "reasons"), judgement.notes
    return Lines(rows, headings, summary(judgement), notes, notes)


def summary(judgement: Judgement) -> str:
    """Return how many comparisons got which verdict, in one line."""
    cuts, model = judgement.card.deciding, judgement.model
    said: list[Answer] = (
        ["fail", "unsure", "pass", "invalid"] if cuts.low < cuts.high else ["fail", "pass", "invalid"]
    )
    answers = ", ".join(f"{judgement.count(answer)} {answer}" for answer in said)
    unsure = f", unsure from {cuts.low:.3f}" if "unsure" in said else ""
    kept = "" if judgement.card.wish == DecisionPolicy() else f"; {line(judgement.card)}"
    return (
        f"{counted(len(judgement), 'comparison')}: {answers} (model {model.name} {model.version}, "
        f"fail from a probability of {cuts.high:.3f}{unsure}{kept})"
    )


def _which(judgement: Judgement, versions: Sequence[str]) -> Sequence[str]:
    """Name the comparisons, and their versions unless they are those of all."""
    names = [one.comparison_id for one in judgement.verdicts]
    if len(set(versions)) == 1:
        return names
    return [f"{name} ({told})" for name, told in zip(names, versions, strict=True)]


def _verdict(verdict: Verdict, flipped: bool) -> str:
    """Return what ``json.dumps`` makes of a verdict, in a tenth of its time. All its numbers are finite."""
    invalid = "null" if verdict.invalid_reason is None else _quoted(verdict.invalid_reason)
    remarks = ", ".join(map(_quoted, verdict.remarks))
    reasons = ", ".join(map(_reason_json, verdict.reasons))
    words = ", ".join(map(_quoted, verdict.words))
    examples = ", ".join(map(_example, verdict.examples))
    flips_at, flip = (verdict.flips_at, verdict.flip) if flipped else (None, "")
    unlike = "null" if verdict.unlike is None else json.dumps(verdict.unlike._asdict(), allow_nan=False)
    return (
        f'{{"comparison_id": {_quoted(verdict.comparison_id)}, "benchmark": {_quoted(verdict.benchmark)},'
        f' "operation": {_quoted(verdict.operation)}, "verdict": "{verdict.verdict}",'
        f' "probability": {_number(verdict.probability)}, "threshold": {verdict.threshold!r},'
        f' "unsure_from": {verdict.unsure_from!r},'
        f' "reasons": [{reasons}], "invalid_reason": {invalid}, "decided_by": "{verdict.decided_by}",'
        f' "remarks": [{remarks}], "moved": {_move(verdict.moved)}, "improved": {_move(verdict.improved)},'
        f' "words": [{words}], "examples": [{examples}], "flips_at": {_number(flips_at)},'
        f' "flip": {_quoted(flip)}, "unlike": {unlike}}}'
    )


def _example(one: NearestExample) -> str:
    return (
        f'{{"comparison_id": {_quoted(one.comparison_id)}, "benchmark": {_quoted(one.benchmark)},'
        f' "operation": {_quoted(one.operation)}, "label": "{one.label}",'
        f' "labelled_by": {_quoted(one.labelled_by)}, "labelled_at": {_quoted(one.labelled_at)},'
        f' "distance": {one.distance!r}, "near": {_quoted(one.near)}}}'
    )


def _reason_json(reason: Reason) -> str:
    feature, value, contribution = reason
    return f'{{"feature": "{feature}", "value": {_number(value)}, "contribution": {contribution!r}}}'


def _move(move: Move | None) -> str:
    if move is None:
        return "null"
    threads, before, after, change = move
    return (
        f'{{"threads": {threads}, "baseline_median": {before!r}, "target_median": {after!r},'
        f' "change": {change!r}}}'
    )


def _number(value: float | None) -> str:
    return "null" if value is None else repr(value)


def _why(verdict: Verdict) -> str:
    """Say what a verdict rests on; of all but ``pass`` also what would flip it, and what is near."""
    if verdict.invalid_reason is not None:
        return verdict.invalid_reason
    better = "" if verdict.improved is None else verdict.improved.told
    parts = [*verdict.remarks, *verdict.words, better]
    if verdict.verdict != "pass":
        parts += [verdict.flip, *(one.told for one in verdict.examples)]
    if verdict.unlike is not None:
        parts.append(verdict.unlike.words)
    return "; ".join(filter(None, parts))
