"""A judgement of comparisons as JSON, or as lines of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from json.encoder import encode_basestring_ascii as _quoted

from data.comparisons.pair import number_with_noun
from serving.comparisons.guarantees import decided_answer, decision_summary
from serving.comparisons.judge import Judgement, Move, Verdict
from serving.reports.verdict_lines import Answer, VerdictTable
from training.evaluation.thresholds import DecisionPolicy

#: A server computes counterfactuals, which take most of the time, of at most so many comparisons.
FLIPPED = 100
UNFLIPPED = f"only answers of up to {FLIPPED} comparisons have counterfactuals"


def as_json(
    judgement: Judgement, *, explain: bool = True, flipped: bool = True, model: str | None = None
) -> str:
    """Return the verdicts as one JSON document with ``model``, ``verdicts`` (one per line) and ``notes``.

    Its schema is `JudgeAnswer`; ``base_rate`` is added if the judgement has one. `explain`: add the
    contributions of features (``reasons``), the evidence (``words``), nearest ``examples``, and
    ``counterfactual_change`` with ``counterfactual``, its text; ModelError if a contribution is not finite.
    `flipped`: whether `explain` computes counterfactuals; if not, their changes are null and their texts
    empty, and ``notes`` says so. `model`: the result of `model_json`, if it is already computed.
    """
    lines = (_verdict_json(verdict, explain, flipped) for verdict in judgement.iterate_verdicts())
    verdicts = ",\n  ".join(lines)
    rows = f"[\n  {verdicts}\n]" if verdicts else "[]"
    notes = json.dumps((*judgement.notes, *((UNFLIPPED,) if explain and not flipped else ())))
    rate = judgement.base_rate
    last = "" if rate is None else f',\n"base_rate": {json.dumps(asdict(rate), allow_nan=False)}'
    return f'{{"model": {model or model_json(judgement)},\n"verdicts": {rows},\n"notes": {notes}{last}}}\n'


def model_json(judgement: Judgement) -> str:
    """Return the model of a judgement as a JSON object, with the fields of `JudgeModel`."""
    card = judgement.card
    about = {"contribution_unit": judgement.unit, "min_effect_size": card.min_effect_size}
    content = {**asdict(judgement.model), **about, "decided": decided_answer(card)}
    return json.dumps(content, allow_nan=False)


def table_lines(judgement: Judgement, versions: Sequence[str], *, explain: bool = False) -> VerdictTable:
    """Return the verdicts as a `VerdictTable`, with a line per comparison, in their order.

    `versions`: the versions of each comparison, such as ``v1 -> v2``; unless all are equal, they are added to
    the comparison's id. Both are shown only if comparisons share benchmark and operation. `explain`: add
    details to the verdicts ``fail`` and ``unsure``.
    """
    names = [verdict.comparison_id for verdict in judgement.verdicts]
    if len(set(versions)) != 1:
        names = [f"{name} ({span})" for name, span in zip(names, versions, strict=True)]
    rows = []
    for verdict, name in zip(judgement.verdicts, names, strict=True):
        details = verdict.details if explain and verdict.verdict != "pass" else ()
        rows.append(replace(verdict.line, notes=verdict.remarks, which=name, details=details))
    headings, notes = ("benchmark", "operation", "reason"), judgement.notes
    return VerdictTable(rows, headings, judgement_summary(judgement), notes, notes)


def judgement_summary(judgement: Judgement) -> str:
    """Return the number of comparisons by verdict, the model and its thresholds in one line.

    Example: ``2 comparisons: 1 fail, 0 unsure, 1 pass, 0 invalid (model NAME 4, fail from a probability of
    0.600, unsure from 0.400; POLICY)``. If the model's thresholds exclude ``unsure``, its threshold is left
    out, and its number if that is 0 (between-run variation may have decided). POLICY is left out if the model
    has none, or if ``judgement.by_runs`` is above 0: then between-run variation decides verdicts, and no
    guarantee covers them.
    """
    cuts, model = judgement.card.decision_thresholds, judgement.model
    unsure = f", unsure from {cuts.low:.3f}" if cuts.low < cuts.high else ""
    kinds: list[Answer] = ["fail", "unsure", "pass", "invalid"]
    if not unsure and not judgement.count_verdicts("unsure"):
        kinds.remove("unsure")
    answers = ", ".join(f"{judgement.count_verdicts(kind)} {kind}" for kind in kinds)
    has_policy = judgement.card.policy != DecisionPolicy() and not judgement.by_runs
    policy = f"; {decision_summary(judgement.card)}" if has_policy else ""
    return (
        f"{number_with_noun(len(judgement), 'comparison')}: {answers} (model {model.name} {model.version}, "
        f"fail from a probability of {cuts.high:.3f}{unsure}{policy})"
    )


def _verdict_json(verdict: Verdict, explain: bool, flipped: bool) -> str:
    """Return the text that ``json.dumps`` returns, in a third of its time. All numbers are finite."""
    invalid = _quoted(verdict.invalid_reason or "") if verdict.verdict == "invalid" else "null"
    remarks = ", ".join(map(_quoted, verdict.remarks))
    warning = verdict.out_of_distribution
    out_of_distribution = "null" if warning is None else json.dumps(warning._asdict(), allow_nan=False)
    return (
        f'{{"comparison_id": {_quoted(verdict.comparison_id)}, "benchmark": {_quoted(verdict.benchmark)},'
        f' "operation": {_quoted(verdict.operation)}, "verdict": "{verdict.verdict}",'
        f' "probability": {_number_json(verdict.probability)}, "threshold": {verdict.threshold!r},'
        f' "unsure_from": {verdict.unsure_from!r}, "reason": {_quoted(verdict.reason)},'
        f' "invalid_reason": {invalid}, "decided_by": "{verdict.decided_by}",'
        f' "remarks": [{remarks}], "moved": {_move_json(verdict.moved)},'
        f' "improved": {_move_json(verdict.improved)}, "out_of_distribution": {out_of_distribution}'
        f"{_explanation_json(verdict, flipped) if explain else ''}}}"
    )


def _explanation_json(verdict: Verdict, flipped: bool) -> str:
    content = {
        "reasons": [reason._asdict() for reason in verdict.reasons],
        "words": verdict.words,
        "examples": [example._asdict() for example in verdict.examples],
        "counterfactual_change": verdict.counterfactual_change if flipped else None,
        "counterfactual": verdict.counterfactual if flipped else "",
    }
    return f", {json.dumps(content)[1:-1]}"


def _move_json(move: Move | None) -> str:
    if move is None:
        return "null"
    threads, before, after, change = move
    return (
        f'{{"threads": {threads}, "baseline_median": {before!r}, "target_median": {after!r},'
        f' "change": {change!r}}}'
    )


def _number_json(value: float | None) -> str:
    return "null" if value is None else repr(value)
