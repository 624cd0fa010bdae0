"""Which model judges comparisons: the registry's champion, or the one that the user names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from data.comparisons.params import Comparisons
from features.comparisons.vectors import columns
from serving.comparisons.schemas import ServedJudge
from serving.models import Served, Source
from serving.supply import Loader
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import Card
from training.registry.champions import Address, project_params

Judge = Served[ReadyModel]


def registered() -> str:
    """Return the name under which models of comparisons are registered."""
    return project_params(Comparisons).section.promote.name


def load(uri: Address = None, floor: float | None = None) -> Judge:
    """Load the model that gives the verdicts.

    Parameters
    ----------
    uri : str or Version, optional
        As of `serving.models.loaded`. By default the champion.
    floor : float, optional
        The smallest change of a median that may be called a regression, as a share; by default its own.

    Raises
    ------
    InputError
        As of `serving.models.loaded`.
    """
    served = JUDGES.load(uri)
    if floor is None:
        return served
    model = replace(served.model, card=replace(served.model.card, floor=floor))
    return replace(served, model=model)


def warmed_up(uri: Address = None, floor: float | None = None) -> Judge:
    """Load the same, and what its first answer would otherwise wait for."""
    served = load(uri, floor)
    served.model.contributions(pd.DataFrame([served.model.card.reference]))
    return served


def _trial(served: Judge) -> None:
    """Judge a comparison like those that passed; raises where the model takes what is not computed."""
    card = served.model.card
    unknown = [name for name in card.features if name not in columns("extended")]
    if unknown:
        raise ValueError(f'feature "{unknown[0]}" is not computed')
    probability = served.model.probability(pd.DataFrame([card.reference]))
    if not 0 <= probability.item() <= 1:
        raise ValueError(f"probability of {probability.item()}")


def _told(served: Judge) -> dict[str, Any]:
    card = served.model.card
    return {
        "contribution_unit": served.model.unit,
        "estimator": card.model,
        "threshold": card.threshold,
        "floor": card.floor,
        "features": card.features,
        "data_digest": card.data_digest,
    }


JUDGES = Source(registered, ReadyModel.read, Card.read)
LOADER = Loader(registered, warmed_up, _told, ServedJudge, trial=_trial)
