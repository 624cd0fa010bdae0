"""Which model judges matrices: the registry's champion, or the one that the user names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from data.matrices.params import Matrices
from serving.matrices.schemas import ServedMatrix
from serving.models import Head, Served, Source
from serving.supply import Loader
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.champions import project_params

Engine = Served[TrainedEngine]


def registered() -> str:
    """Return the name under which models of matrices are registered."""
    return project_params(Matrices).section.promote.name


def _told(known: Head | Engine) -> dict[str, Any]:
    card: EngineCard = known.card
    return {
        "estimator": card.entry,
        "features": [metric.metric for metric in card.metrics],
        "groups": card.groups,
        "own_models": card.own,
        "threshold": card.threshold,
        "promise": None if card.promise is None else asdict(card.promise),
        "data_digest": card.data_digest,
    }


ENGINES = Source(registered, TrainedEngine.read, EngineCard.read, called="entry")
load = ENGINES.load
LOADER = Loader(registered, load, _told, ServedMatrix, ENGINES.head)
