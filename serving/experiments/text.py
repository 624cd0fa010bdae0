"""What two states of the project differ in, as text."""

from __future__ import annotations

from collections.abc import Iterator

from serving.experiments.told import cut, flipped, gap, named, score, statement, value
from serving.reports.text_tables import tabulated
from training.evaluation.paired_bootstrap import Paired
from training.registry.experiments import ExperimentsDifference, FamilyDifference

#: Flips that are told; the page and JSON have all.
MOST = 20
_SCORES = ("entry", "score", "before", "after", "difference", "which is")


def text(found: ExperimentsDifference) -> str:
    """Return what differs, for a terminal or a file."""
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
