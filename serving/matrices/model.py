"""Which model judges matrices: the registry's champion, or the one that the user names."""

from __future__ import annotations

from typing import Any

from data.matrices.params import Matrices
from serving.matrices.schemas import ServedMatrix
from serving.models import Head, ModelRef, Served, loaded, ref
from serving.supply import Loader
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.champions import Located, project_params

Engine = Served[TrainedEngine]


def registered() -> str:
    """Return the name under which models of matrices are registered."""
    return project_params(Matrices).section.promote.name


def load(uri: str | None = None) -> Engine:
    """Load the model that judges matrices, by default the champion; errors as of `serving.models.loaded`."""
    return loaded(registered, uri, _served)


def card(uri: str | None = None) -> Head:
    """Read what is to be known of the model, without the model; errors as of `load`."""
    return loaded(registered, uri, _head)


def _told(known: Head | Engine) -> dict[str, Any]:
    card: EngineCard = known.card
    return {
        "estimator": card.entry,
        "features": [metric["metric"] for metric in card.metrics],
        "groups": card.groups,
        "own_models": card.own,
        "threshold": card.threshold,
        "data_digest": card.data_digest,
    }


def _served(found: Located) -> Engine:
    engine = TrainedEngine.read(found.directory)
    return Served(engine, _ref(engine.card, found))


def _head(found: Located) -> Head:
    card = EngineCard.read(found.directory)
    return Head(card, _ref(card, found))


def _ref(card: EngineCard, found: Located) -> ModelRef:
    return ref(found, card.entry, card.data_digest)


LOADER = Loader(registered, load, _told, ServedMatrix, card)
