"""Impact from the first seconds of a solo run and a co-run: by progress, a trained model, or both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from data.errors import InputError
from data.measure.perf_stat import TIME
from serving.corun.model import Online
from serving.corun.online_samples import Looked, looked
from serving.corun.schemas import ImpactDriverAnswer, OnlineAnswer, OnlineOpinion
from serving.corun.static import strongest
from serving.http.schemas import ModelAnswer
from training.corun import online as trained
from training.corun.progress import (
    NATURE,
    AlignedRuns,
    ImpactBelief,
    ProgressKind,
    WorkCourse,
    believed,
    beside,
    have_ended,
    is_longer,
    kind,
)
from training.estimators.answering import require_finite

Floats = NDArray[np.float64]
#: Observed impacts below this cause a note that the two runs may be swapped.
FASTER = 0.99
#: A rate is divided into the processor's share, its clock, and instructions a cycle.
_CHAIN = ("task-clock", "cpu-cycles")


@dataclass(frozen=True)
class ProgressOpinion:
    """The impact estimated from progress."""

    kind: ProgressKind
    mixture: ImpactBelief
    so_far: float
    seen: float
    whole: bool
    drivers: list[ImpactDriverAnswer]
    notes: list[str]


def progress_opinion(
    pair: Sequence[Looked], *, whole: bool | None, ended: float | None = None
) -> ProgressOpinion | None:
    """Estimate the impact by progress; None if both runs share no event that measures progress."""
    solo, corun = pair
    there = {name for name in solo.counted & corun.counted if all(one.table[name].sum() > 0 for one in pair)}
    by = kind(there)
    if by is None:
        return None
    alone, together = (_course(one.table, by.event, there) for one in pair)
    both = whole is None and have_ended(alone, together)
    complete = both or (is_longer(alone, together) if whole is None else whole)
    runs = beside(alone, together, whole=complete, ended=both)
    drivers = _progress_drivers(by, pair, there, runs)
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


def _progress_drivers(
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
        change = lost / factor - 1
        drivers.append(ImpactDriverAnswer(feature=event, value=together, usual=alone, contribution=change))
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


#: Log odds from which a note says that the two runs may be swapped: 3 to 1.
ASKED = math.log(3)


@dataclass(frozen=True)
class TrainedOpinion:
    """The impact predicted by the trained model."""

    impact: float
    width: float
    missing: float
    swapped: bool
    drivers: list[ImpactDriverAnswer]
    notes: list[str]


def trained_opinion(pair: Sequence[Looked], machine: str | None, online: Online) -> TrainedOpinion | None:
    """Ask the trained model; None if the two runs have none of its events in common."""
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
    notes += _trained_notes(machine, seconds, missing, online)
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
        ImpactDriverAnswer(
            feature=event, value=rates[1, place], usual=rates[0, place], contribution=impacts[0] / one - 1
        )
        for place, (event, one) in enumerate(zip(events, impacts[1:], strict=True))
        if known[place]
    ]
    return float(impacts[0]), strongest(drivers)


def _trained_notes(machine: str | None, seconds: float, missing: float, online: Online) -> list[str]:
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


#: Names of the two runs if they are not files.
NAMES = ("solo", "corun")
#: Name and version of the answer without a trained model.
PROGRESS = ModelAnswer(name="progress", version="untrained", uri="training.corun.progress")
#: The share of impacts that intervals are to hold, where no card says it.
CONFIDENCE = 0.9
#: With more missing events, the model is not used if work measures the progress.
_LACKING = 0.5


def answer(
    solo: pd.DataFrame,
    corun: pd.DataFrame,
    machine: str | None,
    online: Online | None,
    names: Sequence[str] = NAMES,
    *,
    whole: bool | None = None,
    ended: float | None = None,
) -> OnlineAnswer:
    """Predict the impact from samples of a task alone and with its co-runners.

    Parameters
    ----------
    solo, corun : DataFrame
        ``t_seconds`` and a column per event, as `data.measure.perf_stat.read` returns them.
    machine : str or None
        The machine of the samples; None: one that the model was trained on.
    online : Online or None
        The trained model, if any.
    names : sequence of str
        Names of the two runs in notes and errors.
    whole : bool, optional
        Whether `solo` is a complete run, not only its beginning. Default: whether it lasts longer than
        `corun`.
    ended : float, optional
        Seconds after which the co-run ended, if it did and `solo` is a complete run.

    Raises
    ------
    InputError
        If one of them cannot be used, see `serving.corun.online_samples.looked`, or they share no usable
        event.
    """
    events = () if online is None else online.model.card.events
    pair = [looked(table, name, events) for table, name in zip((solo, corun), names, strict=True)]
    told = progress_opinion(pair, whole=whole, ended=ended)
    learned = None if online is None else trained_opinion(pair, machine, online)
    if learned and told and told.kind.hides is None and (ended or learned.missing > _LACKING):
        learned = None
    if told is None and learned is None:
        raise InputError(
            f"counts none of the events that {names[1]} counts and that tell something", file=names[0]
        )
    confidence = CONFIDENCE if online is None else online.model.card.confidence
    low, impact, high = _interval(told, learned, confidence)
    if online is not None:
        require_finite(online.model.card.model, "impact", low, impact, high)
    notes = [note for one in pair for note in one.notes]
    notes += [note for one in (told, learned) if one for note in one.notes]
    return OnlineAnswer(
        model=PROGRESS if online is None or learned is None else online.ref.answer,
        impact=impact,
        low=low,
        high=high,
        confidence=confidence,
        sampled_seconds=min(one.seconds for one in pair),
        drivers=_drivers(told, learned),
        opinions=_opinions(told, learned, confidence),
        notes=list(dict.fromkeys([*notes, *_swapped(told, learned, impact, names)])),
    )


def _interval(
    told: ProgressOpinion | None, learned: TrainedOpinion | None, confidence: float
) -> tuple[float, float, float]:
    """Return what is believed after both opinions: ends of the interval, and its middle."""
    if told is None and learned is not None:
        return learned.impact / np.exp(learned.width), learned.impact, learned.impact * np.exp(learned.width)
    assert told is not None
    mixture = told.mixture
    if learned is not None:
        deviation = learned.width / float(ndtri((1 + confidence) / 2))
        mixture = mixture.with_opinion(float(np.log(learned.impact)), deviation)
    return _quantiles(mixture, confidence)


def _quantiles(mixture: ImpactBelief, confidence: float) -> tuple[float, float, float]:
    shares = ((1 - confidence) / 2, 0.5, (1 + confidence) / 2)
    low, middle, high = (float(np.exp(mixture.quantile(share))) for share in shares)
    return low, middle, high


def _drivers(told: ProgressOpinion | None, learned: TrainedOpinion | None) -> list[ImpactDriverAnswer]:
    """Return the drivers of the answer, preferring the exact split by progress to the model's attribution."""
    if learned is None or (told is not None and told.kind.hides is None):
        return told.drivers if told else []
    return learned.drivers


def _opinions(
    told: ProgressOpinion | None, learned: TrainedOpinion | None, confidence: float
) -> list[OnlineOpinion]:
    found = []
    if told:
        low, impact, high = _interval(told, None, confidence)
        about = {"by": told.kind.event, "so_far": told.so_far, "seen": told.seen if told.whole else None}
        found.append(OnlineOpinion(impact=impact, low=low, high=high, confidence=confidence, **about))
    if learned:
        low, impact, high = _interval(None, learned, confidence)
        found.append(OnlineOpinion(by="trained", impact=impact, low=low, high=high, confidence=confidence))
    return found


def _swapped(
    told: ProgressOpinion | None, learned: TrainedOpinion | None, impact: float, names: Sequence[str]
) -> list[str]:
    """Ask whether the two are swapped, if it looks like it."""
    question = f"are {names[0]} and {names[1]} swapped?"
    faster = impact < 1 if told is None or told.kind.hides else told.so_far < FASTER
    if faster:
        return [f"faster together than alone: {question}"]
    if learned and learned.swapped and (told is None or told.kind.hides):
        return [f"events changed as from together to alone: {question}"]
    return []
