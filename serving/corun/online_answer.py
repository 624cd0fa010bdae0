"""Impact from the first seconds of a solo run and a co-run, by progress and by a trained model."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from data.corun import synonyms
from data.corun.synonyms import IntervalCounts
from data.corun.validity import GAP
from data.errors import InputError
from data.tables.problems import shorten_names
from features.corun.rates import Floats
from serving.corun.model import Online
from serving.corun.schemas import ImpactDriverAnswer, OnlineAnswer, OnlineOpinion
from serving.http.schemas import ModelAnswer
from training.corun.online import start_rates
from training.corun.progress import (
    KINDS,
    NATURE,
    AlignedRuns,
    ImpactPosterior,
    ProgressKind,
    WorkProgress,
    align_runs,
    choose_progress_kind,
    have_ended,
    impact_posterior,
    is_longer,
)
from training.estimators.answering import require_finite

#: Minimal seconds of samples: the fewest that the online model was evaluated with.
FEWEST = 0.4
#: Number of events in the attributions of the trained model.
REASONS = 3
#: Number of unknown events in a note; the others are counted.
_LISTED = 4
#: Tolerance of times in seconds.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class UsableSamples:
    """Usable samples of one run.

    `table` has all samples since the first began, `stretch` the longest part without a gap; `never` names
    events without counts, `privileges` the modes in which events were counted ("u", "k", "uk").
    """

    source: str
    table: IntervalCounts
    stretch: IntervalCounts
    never: frozenset[str]
    privileges: dict[str, str]
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Time from the beginning of the first sample to the end of the last one."""
        return float(self.table.ends[-1])

    @property
    def stretch_seconds(self) -> float:
        """Length of `stretch`."""
        return float(self.stretch.ends[-1])

    @cached_property
    def counted_events(self) -> frozenset[str]:
        """The events with counts in `stretch`."""
        return frozenset(compress(self.stretch.events, ~self.stretch.is_missing))

    def notes_on_missing(self, events: Sequence[str]) -> list[str]:
        """Return notes on the missing and the uncounted events of a model; empty without any."""
        present = {*self.table.events, *self.never}
        missing = {
            "lacks": [event for event in events if event not in present],
            "did not count": [event for event in events if event in self.never],
        }
        return [
            f"{self.source}: {verb} {len(names)} of the model's {len(events)} events ({shorten_names(names)})"
            for verb, names in missing.items()
            if names
        ]


def usable_samples(samples: IntervalCounts, source: str, events: Collection[str] = ()) -> UsableSamples:
    """Return the samples of one run as `UsableSamples`, with canonical event names.

    ``table`` has all samples, with a row of NaN per gap in time: an interval, not the first, longer than 2.5
    (`GAP`) times the median one. ``stretch`` is the longest part without a gap. Times count from the
    beginning of the first interval of each. Events that neither `synonyms.SYNONYMS` nor `events` (those of a
    model) know are left out with a note, those without any count are named in ``never``. An interval without
    any counts gets zeros. InputError, naming `source`, if times do not ascend from above 0, ``stretch`` is
    shorter than 0.4 seconds, or no counted event measures progress or is one of `events`.
    """
    _require_time(samples.ends, source)
    renamed, privileges = synonyms.canonical_counts(samples, events)
    is_known = np.array([name in synonyms.SYNONYMS or name in events for name in renamed.events], bool)
    awake = _with_idle_zeros(renamed.select_events(is_known))
    others = list(compress(renamed.events, ~is_known))
    strange = [f"unknown events {_quote_unknown(others, events)}"] if others else []
    never = frozenset(compress(awake.events, awake.is_missing))
    usable = awake.select_events(~awake.is_missing)
    if not {*usable.events} & {*events, *(kind.event for kind in KINDS)}:
        expected = "instructions, cycles or task-clock" + (", nor any event of the model" if events else "")
        raise InputError("; ".join([f"counts none of {expected}", *strange]), file=source)
    whole, stretch, cut = _without_gaps(usable, source)
    seconds = stretch.ends[-1]
    if seconds < FEWEST - _ROUNDING:
        gap = f"{cut[0].partition(': ')[2]}; " if cut else ""
        problem = f"{gap}{seconds:.2g} s of samples are too few; expected at least {FEWEST:g} s"
        raise InputError(problem, file=source)
    notes = [f"{source}: {line}" for line in strange]
    partly = shorten_names(list(compress(usable.events, np.isnan(usable.counts.sum(axis=0)))))
    if partly:
        notes.append(f"{source}: did not count {partly} in every interval; the others are used")
    return UsableSamples(source, whole, stretch, never, privileges, (*notes, *cut))


def _quote_unknown(names: Sequence[str], events: Collection[str]) -> str:
    """Return the first unknown names, each with the most similar known one, and the number of others."""
    listed = list(names)
    for place, name in enumerate(names[:_LISTED]):
        if near := synonyms.nearest_event(name, frozenset(events)):
            listed[place] = f"{name} (did you mean {near}?)"
    return shorten_names(listed, _LISTED)


def _require_time(times: Floats, source: str) -> None:
    wrong = np.flatnonzero(~(np.diff(times, prepend=0.0) > 0))
    if len(wrong):
        place = int(wrong[0])
        before = f"after {times[place - 1]:g} s" if place else "above 0"
        problem = f"t_seconds={times[place]:g} must be {before}"
        raise InputError(problem, file=source, place=f"row {place + 1}")


def _with_idle_zeros(samples: IntervalCounts) -> IntervalCounts:
    """Return a copy with zeros in intervals without any counts."""
    counts = samples.counts
    is_idle = np.asarray(np.isnan(counts).all(axis=1, keepdims=True))
    return replace(samples, counts=np.where(is_idle & ~samples.is_missing, 0.0, counts))


def _without_gaps(samples: IntervalCounts, source: str) -> tuple[IntervalCounts, IntervalCounts, list[str]]:
    """Return the samples since the first began, the longest stretch without a gap, and notes on gaps.

    The samples have an empty row for each gap.
    """
    times = samples.ends
    lasted = np.diff(times, prepend=0.0)
    usual = float(np.median(lasted))
    # perf may have been started with a delay, so a long first interval is no gap
    gaps = np.flatnonzero(lasted[1:] > GAP * usual) + 1
    starts, stops = np.array([0, *gaps]), np.array([*gaps, len(times)])
    # the length of the interval that ends a gap is unknown
    begins = times[starts]
    begins[0] = times[0] - min(lasted[0], usual) if len(times) > 1 else 0.0
    longest = int(np.argmax(times[stops - 1] - begins))
    rows = slice(starts[longest] + (longest > 0), stops[longest])
    stretch = replace(samples, ends=times[rows] - begins[longest], counts=samples.counts[rows])
    since_first = times - begins[0]
    whole = replace(samples, ends=since_first)
    if not len(gaps):
        return whole, stretch, []
    worst = gaps[np.argmax(lasted[gaps])]
    note = (
        f"{source}: has a gap of {lasted[worst]:.1f} s before {times[worst]:.1f} s where intervals last "
        f"{usual:.1f} s; progress uses all parts, a trained model the {stretch.ends[-1]:.1f} s without one"
    )
    ends = np.concatenate([since_first, since_first[gaps] - usual])
    counts = np.vstack([samples.counts, np.full((len(gaps), samples.counts.shape[1]), np.nan)])
    order = np.argsort(ends, kind="stable")
    return replace(samples, ends=ends[order], counts=counts[order]), stretch, [note]


#: Observed impact below which a note says that the two runs may be swapped.
FASTER = 0.99
#: Events that split a rate into the share of the processor, its clock, and the work per cycle.
_CHAIN = ("task-clock", "cpu-cycles")


@dataclass(frozen=True)
class ProgressOpinion:
    """The impact estimated from progress.

    `so_far` is the impact of the observed part, `seen` that part's share of the solo run, `whole` whether
    the solo run is complete.
    """

    kind: ProgressKind
    mixture: ImpactPosterior
    so_far: float
    seen: float
    whole: bool
    attributions: list[ImpactDriverAnswer]
    notes: list[str]


def progress_opinion(
    pair: Sequence[UsableSamples], *, whole: bool | None, ended: float | None = None
) -> ProgressOpinion | None:
    """Return the impact estimated by progress; None if the runs share no event that measures progress.

    `pair`: solo run, co-run. `whole`: whether the solo run is complete (None: estimated). `ended`: seconds
    after which the co-run ended; with a complete solo run, the impact is measured: `ended` / the length of
    the solo run.
    """
    solo, corun = pair
    shared = set(solo.counted_events & corun.counted_events)
    for run in pair:
        shared &= {*compress(run.table.events, np.nansum(run.table.counts, axis=0) > 0)}
    by = choose_progress_kind(shared)
    if by is None:
        return None
    alone, together = (_work_course(run.table, by.event, shared) for run in pair)
    both_ended = whole is None and have_ended(alone, together)
    complete = both_ended or (is_longer(alone, together) if whole is None else whole)
    runs = align_runs(alone, together, whole=complete, ended=both_ended)
    notes: list[str] = []
    if ended is not None and complete:
        kind, so_far, seen = ProgressKind(by.event), ended / alone.sampled_seconds, 1.0
        compared = alone.sampled_seconds, together.sampled_seconds
        mixture = ImpactPosterior.from_measured(so_far)
    else:
        kind = ProgressKind(by.event) if both_ended else by
        compared = runs.seen_seconds, float(runs.corun.sum())
        so_far = compared[1] / compared[0]
        seen = min(runs.seen_seconds / alone.sampled_seconds, 1.0)
        mixture = impact_posterior(runs)
        mixture = mixture if kind.hides is None else mixture.add_independent(kind.hides)
        notes = _progress_notes(kind, pair, runs, alone, guessed=whole is None)
    attributions = _progress_attributions(by, pair, shared, compared, so_far)
    return ProgressOpinion(kind, mixture, so_far, seen, complete, attributions, notes)


def _work_course(samples: IntervalCounts, event: str, events: set[str]) -> WorkProgress:
    nature = [name for name in NATURE if name in events and name != event]
    counts = np.column_stack([_filled_counts(samples, name) for name in (event, *nature)])
    return WorkProgress(samples.ends, counts[:, 0], counts[:, 1:])


def _filled_counts(samples: IntervalCounts, event: str) -> Floats:
    """Return the counts of an event per interval; missing rates are interpolated."""
    ends, counts = samples.ends, samples.counts_of(event)
    lasted = np.diff(ends, prepend=0.0)
    rates = counts / lasted
    counted = ~np.isnan(rates)
    return np.asarray(np.interp(ends, ends[counted], rates[counted]) * lasted)


def _mean_rate(samples: IntervalCounts, event: str, until: float) -> float:
    done = np.append(0, _filled_counts(samples, event).cumsum())
    return float(np.interp(until, np.append(0, samples.ends), done) / until)


def _progress_attributions(
    by: ProgressKind,
    pair: Sequence[UsableSamples],
    shared: set[str],
    compared: tuple[float, float],
    so_far: float,
) -> list[ImpactDriverAnswer]:
    """Return the factors of the impact `so_far`: processor share, clock, and work per cycle.

    `compared`: seconds of both runs that the rates are averages of. Without an event that counts work, the
    part of the impact that the events do not show has no factor.
    """
    events = [name for name in _CHAIN if name in shared and name != by.event] + [by.event]
    runs = [(run.table, until) for run, until in zip(pair, compared, strict=True)]
    factor, attributions = 1.0, []
    for event in events:
        alone, together = (_mean_rate(samples, event, until) for samples, until in runs)
        lost = alone / together if alone and together else factor
        if event == by.event and by.hides is None:
            lost = so_far
        change = lost / factor - 1
        driver = ImpactDriverAnswer(feature=event, value=together, usual=alone, contribution=change)
        attributions.append(driver)
        factor = lost
    return attributions


def _progress_notes(
    by: ProgressKind, pair: Sequence[UsableSamples], runs: AlignedRuns, alone: WorkProgress, *, guessed: bool
) -> list[str]:
    solo, corun = pair
    notes = [f"{by.says}: the interval is wider for it"] if by.says else []
    modes = [run.privileges.get(by.event, "uk") for run in pair]
    if modes[0] != modes[1]:
        notes.append(f"{solo.source} counts {by.event}:{modes[0]}, {corun.source} {by.event}:{modes[1]}")
    if runs.whole and guessed and len(runs.rest):
        notes.append(f"{solo.source} lasts {alone.sampled_seconds:.4g} s and counts as the whole run")
    return notes


#: Log odds above which a note says that the two runs may be swapped (3 to 1).
SWAPPED_LOG_ODDS = math.log(3)


@dataclass(frozen=True)
class TrainedOpinion:
    """The impact predicted by the trained model; `width` is half its interval on the log scale.

    `missing` is the share of the model's events that were not counted.
    """

    impact: float
    width: float
    missing: float
    swapped: bool
    attributions: list[ImpactDriverAnswer]
    notes: list[str]


def trained_opinion(
    pair: Sequence[UsableSamples], machine: str | None, online: Online
) -> TrainedOpinion | None:
    """Return the impact predicted by the trained model; None if none of its events is counted in both runs.

    `pair`: solo run, co-run. The interval is twice as wide if the model was not trained on `machine` (None:
    it was); it is also wider for short runs and uncounted events. ModelError if the impact is not finite.
    """
    card = online.model.card
    counted = frozenset.intersection(*(run.counted_events for run in pair))
    is_counted = np.array([event in counted for event in card.events])
    if not is_counted.any():
        return None
    seconds = min(card.seconds, *(run.stretch_seconds for run in pair))
    start = np.stack([_run_start(run.stretch, card.events, is_counted, seconds) for run in pair])
    done = online.model.model.completion_rates(start)
    changes = online.model.model.changes
    ratios = changes.fill_missing(done[1] - done[0], is_counted)
    impact, attributions = _explained_impact(ratios, start, is_counted, online)
    missing = 1 - int(is_counted.sum()) / len(card.events)
    swapped = changes.swap_log_odds(ratios, is_counted) > SWAPPED_LOG_ODDS
    notes = [note for run in pair for note in run.notes_on_missing(card.events)]
    notes += _trained_notes(machine, seconds, missing, online)
    width = card.half_width(machine, seconds, missing)
    return TrainedOpinion(impact, width, missing, swapped, attributions, notes)


def _run_start(
    samples: IntervalCounts, events: Sequence[str], is_counted: NDArray[np.bool_], seconds: float
) -> Floats:
    """Return `start_rates` of a run; events that are not counted have zeros."""
    counts = np.zeros((len(samples.ends), len(events)))
    place = {event: number for number, event in enumerate(samples.events)}
    counts[:, is_counted] = samples.counts[:, [place[event] for event in compress(events, is_counted)]]
    lasted = np.diff(samples.ends, prepend=0.0)
    for column in np.flatnonzero(np.isnan(counts).any(axis=0)):
        missing = np.isnan(counts[:, column])
        rate = counts[~missing, column].sum() / lasted[~missing].sum()
        counts[missing, column] = rate * lasted[missing]
    return start_rates(samples.ends, counts, seconds)


def _explained_impact(
    ratios: Floats, start: Floats, is_counted: NDArray[np.bool_], online: Online
) -> tuple[float, list[ImpactDriverAnswer]]:
    """Return the impact, and the three events that change it most: impact / that of an unchanged rate - 1.

    Ties are in order of name; events without effect are left out.
    """
    events = online.model.card.events
    without = np.tile(ratios, (len(events) + 1, 1))
    without[np.arange(1, len(events) + 1), np.arange(len(events))] = 0.0
    impacts = online.model.model.impacts_of_ratios(without)
    changes = impacts[0] / impacts[1:] - 1
    sizes = np.abs(np.log1p(changes)).tolist()
    ranked = sorted(is_counted.nonzero()[0].tolist(), key=lambda place: (-sizes[place], events[place]))
    rates = np.expm1(start[:, :, 0])
    attributions = [
        ImpactDriverAnswer(
            feature=events[place], value=rates[1, place], usual=rates[0, place], contribution=changes[place]
        )
        for place in ranked[:REASONS]
        if changes[place]
    ]
    return float(impacts[0]), attributions


def _trained_notes(machine: str | None, seconds: float, missing: float, online: Online) -> list[str]:
    card, notes = online.model.card, []
    if missing:
        notes.append(f"{missing:.0%} of the events are estimated from others: the interval is wider for it")
    if seconds < card.seconds - 1e-6:
        notes.append(
            f"the model was trained for {card.seconds:g} s of both runs, but they have {seconds:.1f} s: "
            "the interval is that of fewer seconds"
        )
    if machine is not None and machine not in card.machines:
        notes.append(f'the model was not trained on the machine "{machine}": the interval is twice as wide')
    return notes


#: Default names of the two runs.
NAMES = ("solo", "corun")
#: Name and version of the answer without a trained model.
PROGRESS = ModelAnswer(name="progress", version="untrained", uri="training.corun.progress")
#: Confidence level of intervals without a model.
CONFIDENCE = 0.9
#: Share of missing events above which the model is not used if work measures the progress.
_LACKING = 0.5


def predict_online(
    solo: IntervalCounts,
    corun: IntervalCounts,
    machine: str | None,
    online: Online | None,
    names: Sequence[str] = NAMES,
    *,
    whole: bool | None = None,
    ended: float | None = None,
) -> OnlineAnswer:
    """Return the impact predicted from samples of a task alone and with its co-runners, and its interval.

    The impact combines the estimates by progress and by the trained model. The model is ignored if progress
    shows all of the slow-down, and `ended` is given or fewer than half of the model's events are counted in
    both runs. Progress shows all of it if an event counts work (such as instructions, not cycles or clocks),
    if both runs seem complete, or if the impact is measured by `ended`.

    Parameters
    ----------
    solo, corun : IntervalCounts
        Counts per interval of the two runs.
    machine : str or None
        Machine of the samples; None: one that the model was trained on.
    online : Online or None
        The trained model, if any.
    names : sequence of str
        Names of the two runs in notes and errors.
    whole : bool, optional
        Whether `solo` is a complete run, not only its beginning (default: whether it is over 10 % longer than
        `corun`, or both did equal work in different times).
    ended : float, optional
        Seconds after which the co-run ended, if it did; the impact is then `ended` / the length of `solo`,
        if `solo` is a complete run.

    Raises
    ------
    InputError, ModelError
        If samples are unusable, or the runs share no usable event; if the model's impact is not finite.
    """
    events = frozenset(() if online is None else online.model.card.events)
    pair = [usable_samples(run, name, events) for run, name in zip((solo, corun), names, strict=True)]
    progress = progress_opinion(pair, whole=whole, ended=ended)
    learned = None if online is None else trained_opinion(pair, machine, online)
    if learned and progress and progress.kind.hides is None and (ended or learned.missing > _LACKING):
        learned = None
    if progress is None and learned is None:
        problem = f"shares no event with {names[1]} that measures progress or that the model uses"
        raise InputError(problem, file=names[0])
    confidence = CONFIDENCE if online is None else online.model.card.confidence
    estimate = _combined_estimate(progress, learned, confidence)
    if online is not None:
        require_finite(online.model.card.model, "impact", *estimate.values())
    attributions = learned.attributions if learned else []
    # the split by progress is exact, the attribution of the model is not
    if progress and (learned is None or progress.kind.hides is None):
        attributions = progress.attributions
    notes = [note for source in (*pair, progress, learned) if source for note in source.notes]
    return OnlineAnswer(
        model=PROGRESS if online is None or learned is None else online.ref.model_answer,
        **estimate,
        sampled_seconds=min(run.seconds if progress else run.stretch_seconds for run in pair),
        attributions=attributions,
        opinions=_opinion_answers(progress, learned, confidence),
        notes=list(dict.fromkeys([*notes, *_swapped_notes(progress, learned, estimate["impact"], names)])),
    )


def _combined_estimate(
    progress: ProgressOpinion | None, learned: TrainedOpinion | None, confidence: float
) -> dict[str, float]:
    """Return the fields of an `Estimate` after one or both opinions."""
    if progress is None:
        assert learned is not None
        impact, factor = learned.impact, np.exp(learned.width)
        return {"low": impact / factor, "impact": impact, "high": impact * factor, "confidence": confidence}
    mixture = progress.mixture
    if learned is not None:
        deviation = learned.width / float(ndtri((1 + confidence) / 2))
        mixture = mixture.with_prediction(float(np.log(learned.impact)), deviation)
    shares = ((1 - confidence) / 2, 0.5, (1 + confidence) / 2)
    low, impact, high = np.exp(mixture.quantiles(shares)).tolist()
    return {"low": low, "impact": impact, "high": high, "confidence": confidence}


def _opinion_answers(
    progress: ProgressOpinion | None, learned: TrainedOpinion | None, confidence: float
) -> list[OnlineOpinion]:
    opinions = []
    if progress:
        by, seen = progress.kind.event, progress.seen if progress.whole else None
        estimate = _combined_estimate(progress, None, confidence)
        opinions.append(OnlineOpinion(by=by, so_far=progress.so_far, seen=seen, **estimate))
    if learned:
        opinions.append(OnlineOpinion(by="trained", **_combined_estimate(None, learned, confidence)))
    return opinions


def _swapped_notes(
    progress: ProgressOpinion | None, learned: TrainedOpinion | None, impact: float, names: Sequence[str]
) -> list[str]:
    question = f"are {names[0]} and {names[1]} swapped?"
    if impact < 1 if progress is None or progress.kind.hides else progress.so_far < FASTER:
        return [f"faster together than alone: {question}"]
    if learned and learned.swapped and (progress is None or progress.kind.hides):
        return [f"events changed as from together to alone: {question}"]
    return []
