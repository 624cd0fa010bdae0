"""Impact from the first seconds of a task alone and beside others: by progress, a trained model, or both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtri

from data.errors import InputError
from serving.corun.model import Online
from serving.corun.online import progress, trained
from serving.corun.online.progress import FASTER, ProgressOpinion
from serving.corun.online.samples import looked
from serving.corun.online.trained import TrainedOpinion
from serving.corun.schemas import ImpactDriverAnswer, OnlineAnswer, OnlineOpinion
from serving.doors.schemas import ModelAnswer
from training.corun.progress.estimate import ImpactBelief
from training.estimators.answering import require_finite

#: What the two runs are called where they are no files.
NAMES = ("solo", "corun")
#: What answers without training.
PROGRESS = ModelAnswer(name="progress", version="untrained", uri="training.corun.progress")
#: The share of impacts that intervals are to hold, where no card says it.
CONFIDENCE = 0.9
#: A model that lacks more of its events is not asked where progress is told by work.
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
    """Answer from samples of the same task alone and beside others.

    Parameters
    ----------
    solo, corun : DataFrame
        ``t_seconds`` and a column per event, as `data.measure.intervals.read` reads them.
    machine : str or None
        Where they were measured; None: on one that the model was trained on.
    online : Online or None
        The trained model; None: there is none.
    names : sequence of str
        What notes and errors call the two runs.
    whole : bool, optional
        Whether `solo` is a whole run, not only its beginning. By default, if it lasts longer than `corun`.
    ended : float, optional
        After how many seconds the task ended beside others, if it did, and `solo` is a whole run.

    Raises
    ------
    InputError
        If one of them cannot be used, see `serving.corun.online.samples.looked`, or they have nothing in
        common.
    """
    events = () if online is None else online.model.card.events
    pair = [looked(table, name, events) for table, name in zip((solo, corun), names, strict=True)]
    told = progress.opinion(pair, whole=whole, ended=ended)
    learned = None if online is None else trained.opinion(pair, machine, online)
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
    """Return what drives the answer: work is divided exactly, what a model makes of rates is its guess."""
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
