"""What ``perfjudge experiments diff`` does: compare two states, write text, a page or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
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

#: Of a digest.
_DIGITS = 12


def value(given: Any) -> str:
    """Format a parameter or a count; None becomes a dash."""
    if given is None:
        return "\N{EN DASH}"
    if isinstance(given, list):
        return ", ".join(map(str, given))
    return f"{given:,}" if isinstance(given, int) and not isinstance(given, bool) else str(given)


def cut(change: ValueChange) -> ValueChange:
    """Return a change as it is shown: digests by their beginning."""
    if change.name != "digest":
        return change
    return ValueChange(change.name, str(change.before or "")[:_DIGITS], str(change.after or "")[:_DIGITS])


def score(change: ScoreChange, number: float) -> str:
    """Write a score: shares in percent, balanced accuracy as a number."""
    return f"{number:.3f}" if not change.lower_is_better else percent(number)


def gap(change: ScoreChange) -> str:
    """Format the change of a score with its interval; in percentage points if lower is better."""
    found = change.difference
    if not change.lower_is_better:
        observed, low, high = (f"{one:+.3f}" for one in (found.observed, found.low, found.high))
    else:
        observed, low, high = (f"{100 * one:+.1f}" for one in (found.observed, found.low, found.high))
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
    """Say which entries are compared, and on how many cases."""
    who = best.after if best.before == best.after else f"{best.before} \N{RIGHTWARDS ARROW} {best.after}"
    return f"{best.what}: {who}, {counted(best.common, 'common case')}"


def flipped(best: Paired) -> str:
    """Say how many verdicts flipped, and which way."""
    righted = sum(flip.righted for flip in best.flips)
    wronged = len(best.flips) - righted
    if not best.flips:
        return "no verdict flipped"
    return f"{counted(len(best.flips), 'verdict')} flipped: {righted} became right, {wronged} wrong"


def unchanged(one: FamilyDifference) -> Iterator[str]:
    """Yield what is the same in both, in words."""
    if not one.data:
        yield "the same data"
    same = [best for best in one.champions if best.same]
    if same and len(same) == len(one.champions):
        yield "every verdict of the champion"
    alike = sum(entry.same for entry in one.entries)
    if alike:
        yield f"{alike} of {counted(len(one.entries), 'entry', 'entries')}"


#: Maximal number of flips in the text; the page and JSON have all.
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
        rows = [(one.name, value(one.before), value(one.after)) for one in found.params]
        yield tabulated(("knob", "before", "after"), rows).rstrip()
    else:
        yield "All knobs are the same."
    for one in found.families:
        yield from _of_family(one)
    if found.notes:
        yield ""
        yield from (f"note: {note}" for note in found.notes)
    how = found.drawing
    yield ""
    yield (
        f"Intervals: {how.confidence:.0%} of {how.resamples:,} draws of whole groups, random seed {how.seed}."
    )


def _of_family(one: FamilyDifference) -> Iterator[str]:
    yield ""
    yield f"{one.family}: {'the same data' if not one.data else 'other data'}"
    if one.data:
        known = ((own.name, value(own.before), value(own.after)) for own in map(cut, one.data))
        yield tabulated(("data", "before", "after"), known).rstrip()
    if not one.compared:
        figures = [(own.name, value(own.before), value(own.after)) for own in one.figures]
        same = "The figures of summary.json are the same."
        yield tabulated(("figure", "before", "after"), figures).rstrip() if figures else same
    for best in one.champions:
        yield f"{named(best)}; {flipped(best)}"
    rows = [row for best in one.champions for row in _scores(best, "champion")]
    rows += [row for entry in one.entries if not entry.same for row in _scores(entry, entry.after)]
    if any(row[-1] != "the same" for row in rows):
        yield tabulated(_SCORES, rows, numbers=_SCORES[2:5]).rstrip()
    for best in one.champions:
        if best.flips:
            yield tabulated(("flipped", "label", "before", "after", "measured"), _flips(best)).rstrip()
        if len(best.flips) > MOST:
            yield f"and {len(best.flips) - MOST} more; --format html and json have all"
    if one.only:
        yield f"only in one of them: {', '.join(one.only)}"


def _scores(best: Paired, entry: str) -> list[tuple[str, ...]]:
    return [
        (entry, one.score, score(one, one.before), score(one, one.after), gap(one), one.found)
        for one in best.scores
    ]


def _flips(best: Paired) -> Iterator[tuple[str, ...]]:
    for flip in best.flips[:MOST]:
        mark = "" if flip.righted else " (wrong)"
        said = statement(flip.before), f"{statement(flip.after)}{mark}"
        yield flip.case, flip.label, *said, "; ".join(flip.words)


_WORDS = {one.__name__: one for one in (value, cut, score, gap, statement, named, flipped, unchanged)}


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
    with (
        _telling() as tell,
        opened(before, project, tell) as old,
        opened(after, project, tell) as new,
    ):
        tell("comparing")
        return _explained(differences(old, new), new.root)


@contextmanager
def _telling() -> Iterator[Any]:
    """Show the current step on a terminal; gives the function that sets it."""
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield status.update


def _explained(found: ExperimentsDifference, root: Path) -> ExperimentsDifference:
    """Add descriptions of the measurements to the flipped cases, from the files under `root`."""
    families, notes = [], list(found.notes)
    for one in found.families:
        words = supply(one.family).words
        named = [flip.case for best in one.champions for flip in best.flips[:EXPLAINED]]
        try:
            told = words(root, named) if words is not None and named else {}
        except InputError as error:
            told = {}
            notes.append(f"{one.family}: what was measured is not known ({error.problem})")
        champions = []
        for best in one.champions:
            flips = (replace(flip, words=told.get(flip.case, flip.words)) for flip in best.flips)
            champions.append(replace(best, flips=tuple(flips)))
        families.append(replace(one, champions=tuple(champions)))
    return replace(found, families=tuple(families), notes=tuple(notes))


def as_json(found: ExperimentsDifference) -> str:
    """Return the differences as JSON."""
    content = asdict(found)
    for family, own in zip(content["families"], found.families, strict=True):
        for kind in ("champions", "entries"):
            for told, one in zip(family[kind], getattr(own, kind), strict=True):
                for score, change in zip(told["scores"], one.scores, strict=True):
                    score["found"] = change.found
    return json.dumps(content, indent=2, default=str) + "\n"
