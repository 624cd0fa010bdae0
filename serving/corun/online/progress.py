"""What progress says: how long the same work took alone, and beside others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.measure.intervals import TIME
from serving.corun.online.samples import Looked
from serving.corun.schemas import ImpactDriverAnswer
from training.corun.progress.course import AlignedRuns, WorkCourse, beside, have_ended, is_longer
from training.corun.progress.estimate import ImpactBelief, believed
from training.corun.progress.kinds import NATURE, ProgressKind, kind

Floats = NDArray[np.float64]
#: Impacts of what was seen below this ask whether the two are swapped.
FASTER = 0.99
#: A rate is divided into the processor's share, its clock, and instructions a cycle.
_CHAIN = ("task-clock", "cpu-cycles")


@dataclass(frozen=True)
class ProgressOpinion:
    """What progress says.

    Attributes
    ----------
    kind : ProgressKind
        What it is told by.
    mixture : ImpactBelief
        What is believed of the impact.
    so_far : float
        The impact of what was seen.
    seen : float
        The share of the run alone that was also seen together.
    whole : bool
        Whether the run alone is taken for a whole one.
    drivers : list of ImpactDriverAnswer
    notes : list of str
    """

    kind: ProgressKind
    mixture: ImpactBelief
    so_far: float
    seen: float
    whole: bool
    drivers: list[ImpactDriverAnswer]
    notes: list[str]


def opinion(
    pair: Sequence[Looked], *, whole: bool | None, ended: float | None = None
) -> ProgressOpinion | None:
    """Tell the impact by progress; None if nothing was counted in both runs that tells it.

    Parameters
    ----------
    pair : sequence of Looked
        The task alone, and beside others.
    whole : bool or None
        Whether the run alone is a whole one, not only a beginning; None: guess.
    ended : float, optional
        After how many seconds the task ended beside others, if it is known to have ended.
    """
    solo, corun = pair
    there = {name for name in solo.counted & corun.counted if all(one.table[name].sum() > 0 for one in pair)}
    by = kind(there)
    if by is None:
        return None
    alone, together = (_course(one.table, by.event, there) for one in pair)
    both = whole is None and have_ended(alone, together)
    complete = both or (is_longer(alone, together) if whole is None else whole)
    runs = beside(alone, together, whole=complete, ended=both)
    drivers = _drivers(by, pair, there, runs)
    if ended is not None and complete:
        impact = ended / alone.seconds
        return ProgressOpinion(
            ProgressKind(by.event), ImpactBelief.known(impact), impact, 1.0, complete, drivers, []
        )
    if both:
        by = ProgressKind(by.event)
    mixture = believed(runs)
    return ProgressOpinion(
        by,
        mixture if by.hides is None else mixture.hidden(by.hides),
        runs.corun.sum() / runs.seen,
        min(runs.seen / alone.seconds, 1.0),
        complete,
        drivers,
        _notes(by, pair, runs, alone, guessed=whole is None),
    )


def _course(table: pd.DataFrame, event: str, there: set[str]) -> WorkCourse:
    nature = [name for name in NATURE if name in there and name != event]
    counts = np.column_stack([_filled(table, name) for name in (event, *nature)])
    return WorkCourse(table[TIME].to_numpy(np.float64), counts[:, 0], counts[:, 1:])


def _filled(table: pd.DataFrame, event: str) -> Floats:
    """Return the counts of an event; where it was not counted, as its rate was just before and after."""
    ends = table[TIME].to_numpy(np.float64)
    lasted = np.diff(ends, prepend=0.0)
    rates = table[event].to_numpy(np.float64) / lasted
    there = ~np.isnan(rates)
    return np.asarray(np.interp(ends, ends[there], rates[there]) * lasted)


def _drivers(
    by: ProgressKind, pair: Sequence[Looked], there: set[str], runs: AlignedRuns
) -> list[ImpactDriverAnswer]:
    """Divide the impact so far into factors: less of the processor, a slower clock, less work a cycle."""
    events = [name for name in _CHAIN if name in there and name != by.event] + [by.event]
    factor, drivers = 1.0, []
    for event in events:
        alone, together = (
            np.interp(until, one.table[TIME], _filled(one.table, event).cumsum()) / until
            for one, until in zip(pair, (runs.seen, runs.corun.sum()), strict=True)
        )
        lost = alone / together if together else 1.0
        drivers.append(ImpactDriverAnswer.of(event, together, alone, lost / factor - 1))
        factor = lost
    return drivers


def _notes(
    by: ProgressKind, pair: Sequence[Looked], runs: AlignedRuns, alone: WorkCourse, *, guessed: bool
) -> list[str]:
    solo, corun = pair
    notes = [f"{by.says}: the interval is wider for it"] if by.says else []
    modes = [one.privileges.get(by.event, "uk") for one in pair]
    if modes[0] != modes[1]:
        notes.append(f"{solo.source} counts {by.event}:{modes[0]}, {corun.source} {by.event}:{modes[1]}")
    if runs.whole and guessed and len(runs.rest):
        notes.append(f"{solo.source} lasts {alone.seconds:.4g} s and is taken for the whole run")
    return notes
