"""``perfjudge experiments diff``: compare two states, and write text, a page or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.answering import write
from serving.reports.charts import counted, percent
from serving.reports.rendering import render
from serving.reports.text_tables import tabulated
from serving.supply import supply
from training.evaluation.paired_bootstrap import Paired, ScoreChange, Statement
from training.registry.champions import project_root
from training.registry.experiments import (
    ExperimentsDifference,
    FamilyDifference,
    ValueChange,
    differences,
    opened,
)

#: Number of digits of a digest that are shown.
_DIGITS = 12


def value(given: Any) -> str:
    """Format a parameter or a count; None becomes a dash."""
    if given is None:
        return "\N{EN DASH}"
    if isinstance(given, list):
        return ", ".join(map(str, given))
    return f"{given:,}" if isinstance(given, int) and not isinstance(given, bool) else str(given)


def cut(change: ValueChange) -> ValueChange:
    """Return a change with digests shortened."""
    if change.name != "digest":
        return change
    return ValueChange(change.name, str(change.before or "")[:_DIGITS], str(change.after or "")[:_DIGITS])


def score(change: ScoreChange, number: float) -> str:
    """Format a score: in percent if lower is better, else as a number."""
    return f"{number:.3f}" if not change.lower_is_better else percent(number)


def gap(change: ScoreChange) -> str:
    """Format the change of a score with its interval; in percentage points if lower is better."""
    difference = change.difference
    numbers = difference.observed, difference.low, difference.high
    if not change.lower_is_better:
        observed, low, high = (f"{number:+.3f}" for number in numbers)
    else:
        observed, low, high = (f"{100 * number:+.1f}" for number in numbers)
        high += " points"
    return f"{observed} ({low} to {high})".replace("-", "\N{MINUS SIGN}")


def statement(said: Statement) -> str:
    """Format a verdict with its value and threshold, as far as they exist."""
    if said.value is None:
        return said.verdict
    if said.threshold is None:
        return f"{said.verdict}: {said.value:.4g}"
    return f"{said.verdict}: {said.value:.3f} (from {said.threshold:.3f})"


def named(best: Paired) -> str:
    """Return the names of the compared entries, and the number of common cases."""
    names = best.after if best.before == best.after else f"{best.before} \N{RIGHTWARDS ARROW} {best.after}"
    return f"{best.what}: {names}, {counted(best.common, 'common case')}"


def flipped(best: Paired) -> str:
    """Return a text with the numbers of verdicts that became right and wrong."""
    righted = sum(flip.righted for flip in best.flips)
    wronged = len(best.flips) - righted
    if not best.flips:
        return "no verdict flipped"
    return f"{counted(len(best.flips), 'verdict')} flipped: {righted} became right, {wronged} wrong"


def unchanged(one: FamilyDifference) -> Iterator[str]:
    """Yield names of the parts that are equal in both states."""
    if not one.data:
        yield "the same data"
    if one.champions and all(best.same for best in one.champions):
        yield "every verdict of the champion"
    equal = sum(entry.same for entry in one.entries)
    if equal:
        yield f"{equal} of {counted(len(one.entries), 'entry', 'entries')}"


#: Maximum number of flips in the text; the page and JSON have all.
MOST = 20
_SCORES = ("entry", "score", "before", "after", "difference", "which is")


def text(found: ExperimentsDifference) -> str:
    """Return the differences as text."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: ExperimentsDifference) -> Iterator[str]:
    names = zip((found.before, found.after), found.commits, strict=True)
    yield " -> ".join(f"{name} ({commit[:10]})" if commit else name for name, commit in names)
    yield ""
    if found.params:
        yield _changes_table("parameter", found.params)
    else:
        yield "All parameters are the same."
    for family in found.families:
        yield from _family_lines(family)
    if found.notes:
        yield ""
        yield from (f"note: {note}" for note in found.notes)
    how = found.drawing
    yield ""
    yield (
        f"Intervals: {how.confidence:.0%} of {how.resamples:,} draws of whole groups, random seed {how.seed}."
    )


def _changes_table(kind: str, changes: Iterable[ValueChange]) -> str:
    rows = [(change.name, value(change.before), value(change.after)) for change in changes]
    return tabulated((kind, "before", "after"), rows).rstrip()


def _family_lines(family: FamilyDifference) -> Iterator[str]:
    yield ""
    yield f"{family.family}: {'the same data' if not family.data else 'other data'}"
    if family.data:
        yield _changes_table("data", map(cut, family.data))
    if not family.compared and family.figures:
        yield _changes_table("figure", family.figures)
    elif not family.compared:
        yield "The figures of summary.json are the same."
    for best in family.champions:
        yield f"{named(best)}; {flipped(best)}"
    rows = [row for best in family.champions for row in _scores(best, "champion")]
    rows += [row for entry in family.entries if not entry.same for row in _scores(entry, entry.after)]
    if any(row[-1] != "the same" for row in rows):
        yield tabulated(_SCORES, rows, numbers=_SCORES[2:5]).rstrip()
    for best in family.champions:
        if best.flips:
            yield tabulated(("flipped", "label", "before", "after", "measured"), _flips(best)).rstrip()
        if len(best.flips) > MOST:
            yield f"and {len(best.flips) - MOST} more; --format html and json have all"
    if family.only:
        yield f"only in one of them: {', '.join(family.only)}"


def _scores(best: Paired, entry: str) -> list[tuple[str, ...]]:
    return [
        (entry, row.score, score(row, row.before), score(row, row.after), gap(row), row.found)
        for row in best.scores
    ]


def _flips(best: Paired) -> Iterator[tuple[str, ...]]:
    for flip in best.flips[:MOST]:
        mark = "" if flip.righted else " (wrong)"
        statements = statement(flip.before), f"{statement(flip.after)}{mark}"
        yield flip.case, flip.label, *statements, "; ".join(flip.words)


#: Functions of the page's template, by the names in it.
_WORDS = {
    "value": value,
    "cut": cut,
    "score": score,
    "gap": gap,
    "statement": statement,
    "named": named,
    "flipped": flipped,
    "unchanged": unchanged,
}


def page(found: ExperimentsDifference) -> str:
    """Return the differences as one self-contained HTML page."""
    return render("experiments.html", found=found, words=_WORDS)


#: Maximal number of flips per champion whose measurements are described.
EXPLAINED = 200
_FORMS = {"text": text, "html": page}


def give_difference(before: str, after: str, shown: str, output: Path | None) -> int:
    """Write the differences of two states and return the exit code; InputError if nothing can be compared."""
    found = compared(before, after, project_root())
    write(as_json(found) if shown == "json" else _FORMS[shown](found), output)
    return 0


def compared(before: str, after: str, project: Path) -> ExperimentsDifference:
    """Compare two states of a project by their names, and describe the cases whose verdict flipped."""
    from rich.console import Console

    with (
        Console(stderr=True).status("reading") as status,
        opened(before, project, status.update) as old,
        opened(after, project, status.update) as new,
    ):
        status.update("comparing")
        return _with_descriptions(differences(old, new), new.root)


def _with_descriptions(found: ExperimentsDifference, root: Path) -> ExperimentsDifference:
    """Add descriptions of the measurements to the flipped cases, from the files under `root`."""
    families, notes = [], list(found.notes)
    for family in found.families:
        describe = supply(family.family).words
        cases = [flip.case for best in family.champions for flip in best.flips[:EXPLAINED]]
        try:
            words = describe(root, cases) if describe is not None and cases else {}
        except InputError as error:
            words = {}
            notes.append(f"{family.family}: the measurements cannot be described ({error.problem})")
        champions = []
        for best in family.champions:
            flips = (replace(flip, words=words.get(flip.case, flip.words)) for flip in best.flips)
            champions.append(replace(best, flips=tuple(flips)))
        families.append(replace(family, champions=tuple(champions)))
    return replace(found, families=tuple(families), notes=tuple(notes))


def as_json(found: ExperimentsDifference) -> str:
    """Return the differences as JSON."""
    content = asdict(found)
    # properties are not fields
    for family, family_content in zip(found.families, content["families"], strict=True):
        for kind in ("champions", "entries"):
            for paired, paired_content in zip(getattr(family, kind), family_content[kind], strict=True):
                for change, score_content in zip(paired.scores, paired_content["scores"], strict=True):
                    score_content["found"] = change.found
    return json.dumps(content, indent=2, default=str) + "\n"
