"""``perfjudge experiments diff``: compare two states, and write text, a page or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.answering import write_output
from serving.plugins import family_plugin
from serving.reports.charts import percent, with_noun
from serving.reports.rendering import render
from serving.reports.text_tables import text_table
from training.evaluation.paired_bootstrap import EntryComparison, ScoreChange, Statement
from training.registry.champions import project_root
from training.registry.experiments import (
    ExperimentsDifference,
    FamilyDifference,
    ValueChange,
    compare_states,
    open_state,
)

#: Number of digits of a digest that are shown.
_DIGITS = 12


def _format_value(value: Any) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else str(value)


def _change_texts(change: ValueChange) -> tuple[str, str, str]:
    before, after = change.before, change.after
    if change.name == "digest":
        return change.name, str(before or "")[:_DIGITS], str(after or "")[:_DIGITS]
    return change.name, _format_value(before), _format_value(after)


def _score_texts(change: ScoreChange) -> tuple[str, str, str, str, str]:
    values, difference = (change.before, change.after), change.difference
    differences = difference.observed, difference.low, difference.high
    if change.lower_is_better:
        before, after = map(percent, values)
        observed, low, high = (f"{100 * number:+.1f}" for number in differences)
        high += " points"
    else:
        before, after = (f"{number:.3f}" for number in values)
        observed, low, high = (f"{number:+.3f}" for number in differences)
    interval = f"{observed} ({low} to {high})".replace("-", "\N{MINUS SIGN}")
    return change.score, before, after, interval, change.direction


def _format_statement(judgement: Statement) -> str:
    if judgement.value is None:
        return judgement.verdict
    if judgement.threshold is None:
        return f"{judgement.verdict}: {judgement.value:.4g}"
    return f"{judgement.verdict}: {judgement.value:.3f} (threshold {judgement.threshold:.3f})"


def _compared_names(best: EntryComparison) -> str:
    names = best.after if best.before == best.after else f"{best.before} \N{RIGHTWARDS ARROW} {best.after}"
    return f"{best.what}: {names}, {with_noun(best.common, 'common case')}"


def _flips_summary(best: EntryComparison) -> str:
    if not best.flipped:
        return "no verdict flipped"
    righted = sum(flipped_case.righted for flipped_case in best.flipped)
    wronged = len(best.flipped) - righted
    return f"{with_noun(len(best.flipped), 'verdict')} flipped: {righted} became right, {wronged} wrong"


def _unchanged_parts(family: FamilyDifference) -> Iterator[str]:
    if not family.data:
        yield "the same data"
    if family.champions and all(best.is_unchanged for best in family.champions):
        yield "every verdict of the champion"
    equal = sum(entry.is_unchanged for entry in family.entries)
    if equal:
        yield f"{equal} of {with_noun(len(family.entries), 'entry', 'entries')}"


#: Maximum number of flips in the text; the page and JSON have all.
MOST = 20
_SCORES = ("entry", "score", "before", "after", "difference", "which is")


def _difference_lines(difference: ExperimentsDifference) -> Iterator[str]:
    names = zip((difference.before, difference.after), difference.commits, strict=True)
    yield " -> ".join(f"{name} ({commit[:10]})" if commit else name for name, commit in names)
    yield ""
    changed = difference.params
    yield _changes_table("parameter", changed) if changed else "All parameters are the same."
    for family in difference.families:
        yield from _family_lines(family)
    if difference.notes:
        yield ""
        yield from (f"note: {note}" for note in difference.notes)
    how = difference.drawing
    yield ""
    draws = f"{how.n_bootstrap:,} draws of whole groups, random seed {how.seed}"
    yield f"Intervals: {how.confidence:.0%} of {draws}."


def _changes_table(kind: str, changes: Iterable[ValueChange]) -> str:
    return text_table((kind, "before", "after"), map(_change_texts, changes)).rstrip()


def _family_lines(family: FamilyDifference) -> Iterator[str]:
    yield ""
    yield f"{family.family}: {'the same data' if not family.data else 'other data'}"
    if family.data:
        yield _changes_table("data", family.data)
    if not family.compared and family.figures:
        yield _changes_table("figure", family.figures)
    elif not family.compared:
        yield "The figures of summary.json are the same."
    for best in family.champions:
        yield f"{_compared_names(best)}; {_flips_summary(best)}"
    named = [(best, "champion") for best in family.champions]
    named += [(entry, entry.after) for entry in family.entries if not entry.is_unchanged]
    rows = [(name, *_score_texts(change)) for entry, name in named for change in entry.scores]
    if any(row[-1] != "the same" for row in rows):
        yield text_table(_SCORES, rows, numbers=_SCORES[2:5]).rstrip()
    for best in family.champions:
        if best.flipped:
            yield text_table(("flipped", "label", "before", "after", "measured"), _flip_rows(best)).rstrip()
        if len(best.flipped) > MOST:
            yield f"and {len(best.flipped) - MOST} more; --format html and json have all"
    if family.only:
        yield f"only in one of them: {', '.join(family.only)}"


def _flip_rows(best: EntryComparison) -> Iterator[tuple[str, ...]]:
    for flipped_case in best.flipped[:MOST]:
        mark = "" if flipped_case.righted else " (wrong)"
        statements = _format_statement(flipped_case.before), f"{_format_statement(flipped_case.after)}{mark}"
        yield flipped_case.case, flipped_case.label, *statements, "; ".join(flipped_case.words)


#: Functions of the page's template, by the names in it.
_WORDS = {
    "change": _change_texts,
    "score": _score_texts,
    "statement": _format_statement,
    "named": _compared_names,
    "flipped": _flips_summary,
    "unchanged": _unchanged_parts,
}
#: Maximal number of flips per champion whose measurements are described.
EXPLAINED = 200


def write_difference(before: str, after: str, shown: str, output: Path | None) -> int:
    """Write the differences `after` - `before` of two states of the project and return the exit code 0.

    `before` and `after` are states as in `open_state`; `shown` is text, html or json. Errors are those of
    `open_state`, `compare_states` and `write_output`. For each pair of champions, the first 200 flipped cases
    are described; descriptions that fail become notes. Progress is shown on stderr.
    """
    from rich.console import Console

    project = project_root()
    with (
        Console(stderr=True).status("reading") as status,
        open_state(before, project, status.update) as old,
        open_state(after, project, status.update) as new,
    ):
        status.update("comparing")
        difference = _with_descriptions(compare_states(old, new), new.root)
    if shown == "json":
        content = as_json(difference)
    elif shown == "html":
        content = render("experiments.html", found=difference, words=_WORDS)
    else:
        content = "\n".join(_difference_lines(difference)) + "\n"
    write_output(content, output)
    return 0


def _with_descriptions(difference: ExperimentsDifference, root: Path) -> ExperimentsDifference:
    families, notes = [], list(difference.notes)
    for family in difference.families:
        describe = family_plugin(family.family).describe_cases
        cases = [flipped.case for best in family.champions for flipped in best.flipped[:EXPLAINED]]
        try:
            words = describe(root, cases) if describe is not None and cases else {}
        except InputError as error:
            words = {}
            notes.append(f"{family.family}: the measurements cannot be described ({error.problem})")
        champions = []
        for best in family.champions:
            described = (replace(case, words=words.get(case.case, case.words)) for case in best.flipped)
            champions.append(replace(best, flipped=tuple(described)))
        families.append(replace(family, champions=tuple(champions)))
    return replace(difference, families=tuple(families), notes=tuple(notes))


def as_json(difference: ExperimentsDifference) -> str:
    """Return the differences as JSON, indented, with a line end.

    It has the fields of `ExperimentsDifference`; in ``families``, each of the ``scores`` of ``champions`` and
    ``entries`` has an additional key ``found``: "better", "worse", "the same", or "cannot be told apart".
    """
    content = asdict(difference)
    # properties are not fields
    for family, family_content in zip(difference.families, content["families"], strict=True):
        for kind in ("champions", "entries"):
            for paired, paired_content in zip(getattr(family, kind), family_content[kind], strict=True):
                for change, score_content in zip(paired.scores, paired_content["scores"], strict=True):
                    score_content["found"] = change.direction
    return json.dumps(content, indent=2, default=str) + "\n"
