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


def format_value(parameter: Any) -> str:
    """Return a parameter or a count as text.

    None becomes a dash, the items of a list are joined by ", ", an int gets commas (``12,000``), and any
    other value, such as a bool, is its ``str``.
    """
    if parameter is None:
        return "\N{EN DASH}"
    if isinstance(parameter, list):
        return ", ".join(map(str, parameter))
    is_count = isinstance(parameter, int) and not isinstance(parameter, bool)
    return f"{parameter:,}" if is_count else str(parameter)


def shorten_digests(change: ValueChange) -> ValueChange:
    """Return a change named ``digest`` with both values cut to 12 characters (None: empty); else `change`."""
    if change.name != "digest":
        return change
    return ValueChange(change.name, str(change.before or "")[:_DIGITS], str(change.after or "")[:_DIGITS])


def format_score(change: ScoreChange, number: float) -> str:
    """Return the score `number` as text: 0.064 is ``6.4 %`` if lower is better, otherwise ``0.064``."""
    return f"{number:.3f}" if not change.lower_is_better else percent(number)


def format_score_change(change: ScoreChange) -> str:
    """Return the change of a score, after minus before, and its interval: ``+0.012 (+0.003 to +0.021)``.

    If lower is better, the numbers are percentage points: ``+1.2 (+0.3 to +2.1 points)``. Minus is U+2212.
    """
    difference = change.difference
    numbers = difference.observed, difference.low, difference.high
    if not change.lower_is_better:
        observed, low, high = (f"{number:+.3f}" for number in numbers)
    else:
        observed, low, high = (f"{100 * number:+.1f}" for number in numbers)
        high += " points"
    return f"{observed} ({low} to {high})".replace("-", "\N{MINUS SIGN}")


def format_statement(judgement: Statement) -> str:
    """Return a verdict with its value and threshold as text: ``pass: 0.113 (threshold 0.420)``.

    A value equal to the threshold or above is that of a ``fail``. Without threshold, the value has four
    significant digits: ``within: 1.234``; without value, the text is the verdict alone.
    """
    if judgement.value is None:
        return judgement.verdict
    if judgement.threshold is None:
        return f"{judgement.verdict}: {judgement.value:.4g}"
    return f"{judgement.verdict}: {judgement.value:.3f} (threshold {judgement.threshold:.3f})"


def compared_names(best: EntryComparison) -> str:
    """Return a text such as ``verdicts: forest → logistic, 120 common cases``; equal names are given once.

    The parts are the subject, the names of the compared entries, before and after, and the number of cases.
    """
    names = best.after if best.before == best.after else f"{best.before} \N{RIGHTWARDS ARROW} {best.after}"
    return f"{best.what}: {names}, {with_noun(best.common, 'common case')}"


def flips_summary(best: EntryComparison) -> str:
    """Return a text such as ``3 verdicts flipped: 2 became right, 1 wrong``, or ``no verdict flipped``.

    Every change of a verdict is a flip, also from ``unsure`` to ``pass``. Only the later verdict decides
    whether the case became right or wrong; for this, any verdict except ``fail`` counts as ``pass``. Verdicts
    on predicted numbers are ``within`` (right) and ``outside`` the tolerance.
    """
    righted = sum(flipped_case.righted for flipped_case in best.flipped)
    wronged = len(best.flipped) - righted
    if not best.flipped:
        return "no verdict flipped"
    return f"{with_noun(len(best.flipped), 'verdict')} flipped: {righted} became right, {wronged} wrong"


def unchanged_parts(family: FamilyDifference) -> Iterator[str]:
    """Yield a text for each part that is equal in both states; nothing if none is.

    The texts are ``the same data``, ``every verdict of the champion`` (if its scores are equal, too), and a
    number such as ``3 of 7 entries``: the models or rules with equal scores, though perhaps other verdicts.
    Only cases of both states are compared; champions and entries without such cases count as changed.
    """
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


def difference_text(difference: ExperimentsDifference) -> str:
    """Return the differences as lines of text and tables, with at most 20 flipped verdicts per champion.

    The text has the names of both states, changed parameters, then by family the changed data, changed scores
    (changed figures of summary.json if predictions of a state are missing) and flipped verdicts, then notes
    and the settings of the intervals. It states where parameters or data are equal.
    """
    return "\n".join(_difference_lines(difference)) + "\n"


def _difference_lines(difference: ExperimentsDifference) -> Iterator[str]:
    names = zip((difference.before, difference.after), difference.commits, strict=True)
    yield " -> ".join(f"{name} ({commit[:10]})" if commit else name for name, commit in names)
    yield ""
    if difference.params:
        yield _changes_table("parameter", difference.params)
    else:
        yield "All parameters are the same."
    for family in difference.families:
        yield from _family_lines(family)
    if difference.notes:
        yield ""
        yield from (f"note: {note}" for note in difference.notes)
    how = difference.drawing
    yield ""
    yield (
        f"Intervals: {how.confidence:.0%} of {how.n_bootstrap:,} draws of whole groups, random seed "
        f"{how.seed}."
    )


def _changes_table(kind: str, changes: Iterable[ValueChange]) -> str:
    rows = [(change.name, format_value(change.before), format_value(change.after)) for change in changes]
    return text_table((kind, "before", "after"), rows).rstrip()


def _family_lines(family: FamilyDifference) -> Iterator[str]:
    yield ""
    yield f"{family.family}: {'the same data' if not family.data else 'other data'}"
    if family.data:
        yield _changes_table("data", map(shorten_digests, family.data))
    if not family.compared and family.figures:
        yield _changes_table("figure", family.figures)
    elif not family.compared:
        yield "The figures of summary.json are the same."
    for best in family.champions:
        yield f"{compared_names(best)}; {flips_summary(best)}"
    rows = [row for best in family.champions for row in _score_rows(best, "champion")]
    rows += [
        row for entry in family.entries if not entry.is_unchanged for row in _score_rows(entry, entry.after)
    ]
    if any(row[-1] != "the same" for row in rows):
        yield text_table(_SCORES, rows, numbers=_SCORES[2:5]).rstrip()
    for best in family.champions:
        if best.flipped:
            yield text_table(("flipped", "label", "before", "after", "measured"), _flip_rows(best)).rstrip()
        if len(best.flipped) > MOST:
            yield f"and {len(best.flipped) - MOST} more; --format html and json have all"
    if family.only:
        yield f"only in one of them: {', '.join(family.only)}"


def _score_rows(best: EntryComparison, entry: str) -> list[tuple[str, ...]]:
    return [
        (
            entry,
            row.score,
            format_score(row, row.before),
            format_score(row, row.after),
            format_score_change(row),
            row.direction,
        )
        for row in best.scores
    ]


def _flip_rows(best: EntryComparison) -> Iterator[tuple[str, ...]]:
    for flipped_case in best.flipped[:MOST]:
        mark = "" if flipped_case.righted else " (wrong)"
        statements = format_statement(flipped_case.before), f"{format_statement(flipped_case.after)}{mark}"
        yield flipped_case.case, flipped_case.label, *statements, "; ".join(flipped_case.words)


#: Functions of the page's template, by the names in it.
_WORDS = {
    "value": format_value,
    "cut": shorten_digests,
    "score": format_score,
    "gap": format_score_change,
    "statement": format_statement,
    "named": compared_names,
    "flipped": flips_summary,
    "unchanged": unchanged_parts,
}


def difference_page(difference: ExperimentsDifference) -> str:
    """Return the differences, with all flipped verdicts, as one self-contained HTML page."""
    return render("experiments.html", found=difference, words=_WORDS)


#: Maximal number of flips per champion whose measurements are described.
EXPLAINED = 200
_FORMS = {"text": difference_text, "html": difference_page}


def write_difference(before: str, after: str, shown: str, output: Path | None) -> int:
    """Write the differences `after` - `before` of two states of the project and return the exit code 0.

    `before` and `after` are ``workspace``, a commit, an experiment of DVC or ``models:/NAME/VERSION``;
    `shown` is text, html or json; `output` None is standard output. The project is the checkout of perfjudge,
    or the working directory if perfjudge is installed. InputError if a state does not exist or has no
    evaluation, or the states have no family in common; OSError if predictions of a registered version are
    missing, or writing fails.
    """
    difference = compare_named_states(before, after, project_root())
    write_output(as_json(difference) if shown == "json" else _FORMS[shown](difference), output)
    return 0


def compare_named_states(before: str, after: str, project: Path) -> ExperimentsDifference:
    """Return the differences `after` - `before` of two states of a project, with flipped cases described.

    `before` and `after` are ``workspace``, a commit, an experiment of DVC or ``models:/NAME/VERSION``.
    InputError if a state does not exist or has no evaluation, or the states have no family in common; OSError
    if predictions of a registered version are missing. For each pair of champions, the first 200 flipped
    cases are described; descriptions that fail become notes. Progress is shown on stderr.
    """
    from rich.console import Console

    with (
        Console(stderr=True).status("reading") as status,
        open_state(before, project, status.update) as old,
        open_state(after, project, status.update) as new,
    ):
        status.update("comparing")
        return _with_descriptions(compare_states(old, new), new.root)


def _with_descriptions(difference: ExperimentsDifference, root: Path) -> ExperimentsDifference:
    families, notes = [], list(difference.notes)
    for family in difference.families:
        describe = family_plugin(family.family).describe_cases
        cases = [flipped_case.case for best in family.champions for flipped_case in best.flipped[:EXPLAINED]]
        try:
            words = describe(root, cases) if describe is not None and cases else {}
        except InputError as error:
            words = {}
            notes.append(f"{family.family}: the measurements cannot be described ({error.problem})")
        champions = []
        for best in family.champions:
            flipped_cases = (
                replace(flipped_case, words=words.get(flipped_case.case, flipped_case.words))
                for flipped_case in best.flipped
            )
            champions.append(replace(best, flipped=tuple(flipped_cases)))
        families.append(replace(family, champions=tuple(champions)))
    return replace(difference, families=tuple(families), notes=tuple(notes))


def as_json(difference: ExperimentsDifference) -> str:
    """Return the differences as JSON, indented, with a line end: the fields, and how each score changed.

    Each score has an additional key ``found``: "better", "worse", "the same", or "cannot be told apart".
    Numbers that are not finite are written as ``NaN`` and ``Infinity``, which strict JSON does not allow.
    """
    content = asdict(difference)
    # properties are not fields
    for family, family_content in zip(difference.families, content["families"], strict=True):
        for kind in ("champions", "entries"):
            for paired, paired_content in zip(getattr(family, kind), family_content[kind], strict=True):
                for change, score_content in zip(paired.scores, paired_content["scores"], strict=True):
                    score_content["found"] = change.direction
    return json.dumps(content, indent=2, default=str) + "\n"
