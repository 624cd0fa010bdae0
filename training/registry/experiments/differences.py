"""What two states of the project differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from data.errors import InputError
from data.families import FAMILIES
from training.evaluation.paired import Drawing, Paired, paired
from training.registry.experiments.states import FamilyState, ProjectState


@dataclass(frozen=True)
class ValueChange:
    """A knob, or something that is known of the data, of both; None where one lacks it."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class FamilyDifference:
    """What two states differ in as far as one family is concerned.

    Attributes
    ----------
    family : str
    data : tuple of ValueChange
    champions : tuple of Paired
        What evaluation chose, one each of what the family judges.
    entries : tuple of Paired
        Every entry that both have, with its own former self; without flips.
    only : tuple of str
        Entries that one lacks, in words.
    figures : tuple of ValueChange
        The champions' names and scores over all folds that differ, as both states have written them.
    compared : bool
        Whether both have predictions, so that champions are compared case by case.
    """

    family: str
    data: tuple[ValueChange, ...]
    champions: tuple[Paired, ...]
    entries: tuple[Paired, ...]
    only: tuple[str, ...]
    figures: tuple[ValueChange, ...] = ()
    compared: bool = True


@dataclass(frozen=True)
class ExperimentsDifference:
    """What two states differ in.

    Attributes
    ----------
    before, after : str
        Their names.
    commits : tuple of str
        Empty for the working directory.
    params : tuple of ValueChange
    families : tuple of FamilyDifference
    notes : tuple of str
        What could not be compared, and how far the rest can be trusted.
    drawing : Drawing
        How intervals were drawn.
    """

    before: str
    after: str
    commits: tuple[str, str]
    params: tuple[ValueChange, ...]
    families: tuple[FamilyDifference, ...]
    notes: tuple[str, ...]
    drawing: Drawing


def differences(before: ProjectState, after: ProjectState) -> ExperimentsDifference:
    """Compare two states of the project.

    Raises
    ------
    InputError
        If they have no family in common.
    """
    how = Drawing(seed=int(after.params.get("seed", before.params.get("seed", 0))))
    common = [one for one in FAMILIES if one in before.families and one in after.families]
    if not common:
        named = (f"{one.name} has {', '.join(one.families)}" for one in (before, after))
        raise InputError(f"nothing can be compared: {'; '.join(named)}")
    found = tuple(_of_family(one, before.families[one], after.families[one], how) for one in common)
    return ExperimentsDifference(
        before.name,
        after.name,
        (before.commit, after.commit),
        _params(before, after, common),
        found,
        (
            *_told(before, after),
            *_without_predictions(found),
            *(note for one in found for note in _doubts(one)),
        ),
        how,
    )


def _params(before: ProjectState, after: ProjectState, families: Sequence[str]) -> tuple[ValueChange, ...]:
    """Return the knobs that differ, but those of families that are not compared."""
    left = [family for family in FAMILIES if family not in families]
    knobs = changed(before.params, after.params)
    chosen = changed(before.chosen, after.chosen) if before.chosen and after.chosen else ()
    return (*(one for one in knobs if one.name.partition(".")[0] not in left), *chosen)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ValueChange, ...]:
    """Return what is not the same in both, by name."""
    names = sorted({*before, *after})
    pairs = (ValueChange(name, before.get(name), after.get(name)) for name in names)
    return tuple(one for one in pairs if one.before != one.after)


def _of_family(family: str, before: FamilyState, after: FamilyState, how: Drawing) -> FamilyDifference:
    old = {(one.what, one.entry): one for one in before.unseen}
    new = {(one.what, one.entry): one for one in after.unseen}
    best = [
        paired(old[what, before.champions[what]], new[what, entry], how)
        for what, entry in after.champions.items()
        if what in before.champions
    ]
    both = [replace(paired(old[key], own, how), flips=()) for key, own in new.items() if key in old]
    # a registered version is one entry alone
    lacking = sorted({*old} ^ {*new}) if min(len(old), len(new)) > 1 else []
    only = [f"{what}: {entry}" for what, entry in lacking]
    figures = changed(before.figures, after.figures) if before.figures and after.figures else ()
    return FamilyDifference(
        family,
        changed(before.data, after.data),
        tuple(best),
        tuple(both),
        tuple(only),
        figures,
        bool(old and new),
    )


def _told(before: ProjectState, after: ProjectState) -> list[str]:
    notes = [f"{one.name}: {note}" for one in (before, after) for note in one.notes]
    for one, other in ((before, after), (after, before)):
        left = [family for family in one.families if family not in other.families]
        if left:
            notes.append(f"{', '.join(left)} cannot be compared: {other.name} has nothing of it")
    return notes


def _without_predictions(found: Sequence[FamilyDifference]) -> Iterator[str]:
    """Say of which families only what git keeps is compared."""
    if families := [one.family for one in found if not one.compared]:
        yield (
            f"{', '.join(families)}: one state lacks predictions; parameters, data and the figures of"
            " summary.json are compared, without intervals and flipped verdicts"
        )


def _doubts(one: FamilyDifference) -> Iterator[str]:
    """Say where cases, labels or folds are not the same."""
    for best in one.champions:
        if best.only_before or best.only_after:
            yield (
                f"{best.what}: {best.common} cases are in both and are compared, {best.only_before} are only"
                f" in the first, {best.only_after} only in the second"
            )
        if best.relabelled:
            yield (
                f"{best.what}: {len(best.relabelled)} cases are labelled otherwise in the second; both are"
                " scored by these labels"
            )
        if best.common and best.other_folds is None:
            yield f"{best.what}: a registered version of before does not say in which folds its cases were"
        if best.other_folds:
            yield (
                f"{best.what}: {best.other_folds} of {best.common} cases lie in another fold, and were judged"
                " after other lessons"
            )
