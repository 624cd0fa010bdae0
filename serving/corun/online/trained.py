"""The trained model's opinion of the first seconds (the co-run paper, equations 2 to 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.measure.intervals import TIME
from serving.corun.model import Online
from serving.corun.online.samples import Looked
from serving.corun.schemas import ImpactDriverAnswer
from serving.corun.static import strongest
from training.corun import online as trained

Floats = NDArray[np.float64]
#: Logarithm of the odds from which it is asked whether the two are swapped: 3 to 1.
ASKED = math.log(3)


@dataclass(frozen=True)
class TrainedOpinion:
    """What the trained model says.

    Attributes
    ----------
    impact : float
    width : float
        Half the interval, as a logarithm.
    missing : float
        The share of the model's events that nobody counted.
    swapped : bool
        Whether events changed as from together to alone.
    drivers : list of ImpactDriverAnswer
    notes : list of str
    """

    impact: float
    width: float
    missing: float
    swapped: bool
    drivers: list[ImpactDriverAnswer]
    notes: list[str]


def opinion(pair: Sequence[Looked], machine: str | None, online: Online) -> TrainedOpinion | None:
    """Ask the trained model; None if the two runs have none of its events in common.

    Parameters
    ----------
    pair : sequence of Looked
        The task alone, and beside others.
    machine : str or None
        Where they were measured; None: on one that the model was trained on.
    online : Online
    """
    card = online.model.card
    counted = [event for event in card.events if all(event in one.counted for one in pair)]
    if not counted:
        return None
    seconds = min(card.seconds, *(one.seconds for one in pair))
    start = np.stack([_start(one.stretch, card.events, counted, seconds) for one in pair])
    done = online.model.model.completed(start)
    known = np.isin(card.events, counted)
    changes = online.model.model.changes
    ratios = changes.filled(done[1] - done[0], known)
    impact, drivers = _impact(ratios, start, known, online)
    missing = 1 - len(counted) / len(card.events)
    swapped = changes.swapped(ratios, known) > ASKED
    notes = [note for one in pair for note in one.lacking(card.events)]
    notes += _notes(machine, seconds, missing, online)
    return TrainedOpinion(
        impact, card.half_width(machine, seconds, missing), missing, swapped, drivers, notes
    )


def _start(table: pd.DataFrame, events: Sequence[str], counted: list[str], seconds: float) -> Floats:
    """Return what `training.corun.online.SampledRuns.start` has for a run; one for all not `counted`."""
    times = table[TIME].to_numpy(np.float64)
    lasted = np.diff(times, prepend=0.0)
    filled = {}
    for event in counted:
        counts = table[event].to_numpy(np.float64)
        there = ~np.isnan(counts)
        filled[event] = np.where(there, counts, counts[there].sum() / lasted[there].sum() * lasted)
    rows = pd.DataFrame({event: filled.get(event, np.zeros(len(table))) for event in events})
    about = dict.fromkeys(trained.RUN, "") | {"repetition": 1}
    return np.asarray(trained.SampledRuns.of(rows.assign(**about, **{TIME: times}), seconds).start[0])


def _impact(
    ratios: Floats, start: Floats, known: NDArray[np.bool_], online: Online
) -> tuple[float, list[ImpactDriverAnswer]]:
    """Return the impact, and which events it would be another without."""
    events = online.model.card.events
    without = np.tile(ratios, (len(events) + 1, 1))
    without[np.arange(1, len(events) + 1), np.arange(len(events))] = 0.0
    impacts = online.model.model.impacts(without)
    rates = np.expm1(start[:, :, 0])
    drivers = [
        ImpactDriverAnswer.of(event, rates[1, place], rates[0, place], impacts[0] / one - 1)
        for place, (event, one) in enumerate(zip(events, impacts[1:], strict=True))
        if known[place]
    ]
    return float(impacts[0]), strongest(drivers)


def _notes(machine: str | None, seconds: float, missing: float, online: Online) -> list[str]:
    card, notes = online.model.card, []
    if missing:
        notes.append(f"{missing:.0%} of the events are guessed from the others: the interval is wider for it")
    if seconds < card.seconds - 1e-6:
        notes.append(
            f"the model was trained for {card.seconds:g} s of both runs, and there are {seconds:.1f} s: "
            "the interval is that of fewer seconds"
        )
    if machine is not None and machine not in card.machines:
        notes.append(f'the model was not trained on the machine "{machine}": the interval is twice as wide')
    return notes
