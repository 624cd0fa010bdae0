"""Change points that people marked become labelled boundaries between versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from data.comparisons.params import LabelRules


class ChangePoint(NamedTuple):
    """One person's change point: the first version of the new regime, counted from zero."""

    version: int
    annotator: str


@dataclass(frozen=True)
class Span:
    """Versions that some people looked at: from `first` up to, not including, `stop`."""

    first: int
    stop: int
    annotators: tuple[str, ...]


class Boundary(NamedTuple):
    """A place between two versions.

    Attributes
    ----------
    version : int
        The first version of the target.
    marked : bool
        Whether people marked a change there; otherwise, that there is none.
    annotators : tuple of str
        Who says so.
    lookers : tuple of str
        All who looked at it.
    agreed : bool
        Whether enough people say so.
    """

    version: int
    marked: bool
    annotators: tuple[str, ...]
    lookers: tuple[str, ...]
    agreed: bool = True


def boundaries(spans: list[Span], marks: list[ChangePoint], rules: LabelRules) -> list[Boundary]:
    """Return the boundaries that people agree on, and if ``doubtful`` those on which they don't, ascending.

    A change is a consensus of ``annotators`` people within ``within`` versions, at the median of their marks.
    A boundary is clean if nobody marked anything within ``clear_of`` versions though ``annotators`` people
    looked. Doubtful is a change that fewer people mark. Both windows of a comparison lie within what one
    group of people looked at. Spans that overlap count once.
    """
    changes = {
        version: Boundary(version, True, people, lookers, len(people) >= rules.annotators)
        for version, people in _agreed(sorted(marks), rules)
        if (lookers := _lookers(spans, version, rules))
    }
    clean = {boundary.version: boundary for boundary in _clean(spans, marks, rules)}
    return [boundary for _, boundary in sorted((clean | changes).items())]


def _clean(spans: list[Span], marks: list[ChangePoint], rules: LabelRules) -> Iterator[Boundary]:
    near = {
        version
        for mark in marks
        for version in range(mark.version - rules.clear_of, mark.version + rules.clear_of + 1)
    }
    last = max((span.stop for span in spans), default=0)
    for version in range(rules.versions_before, last, rules.clean_every):
        people = _lookers(spans, version, rules)
        if version not in near and len(people) >= rules.annotators:
            yield Boundary(version, False, people, people)


def _agreed(marks: list[ChangePoint], rules: LabelRules) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the consensuses, the one with most people first; a mark belongs to one of them only."""
    left = list(marks)
    while left:
        groups = [
            [mark for mark in left if 0 <= mark.version - first.version <= rules.within] for first in left
        ]
        group = max(groups, key=_strength)
        people = {mark.annotator for mark in group}
        if len(people) < (1 if rules.doubtful else rules.annotators):
            return
        yield int(median(mark.version for mark in group)), _names(people)
        left = [mark for mark in left if mark not in group]


def _strength(group: list[ChangePoint]) -> tuple[int, int]:
    """Many people first, then those who lie close together."""
    return len({mark.annotator for mark in group}), group[0].version - group[-1].version


def _lookers(spans: list[Span], version: int, rules: LabelRules) -> tuple[str, ...]:
    """Return who looked at both windows around `version`."""
    first, stop = version - rules.versions_before, version + rules.versions_after
    return _names(
        {name for span in spans if span.first <= first and stop <= span.stop for name in span.annotators}
    )


def _names(people: set[str]) -> tuple[str, ...]:
    return tuple(sorted(people, key=lambda name: (len(name), name)))
