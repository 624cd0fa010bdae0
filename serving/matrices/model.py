"""Which model judges matrices: the registry's champion, or the one that the user names."""

from __future__ import annotations

from typing import Any

from data.matrices.params import Matrices
from serving.models import Head, ModelRef, Served, loaded, ref
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


def entry(known: Head | Engine) -> dict[str, Any]:
    """Return what ``/v1/models`` says."""
    card: EngineCard = known.card
    return {
        "name": known.ref.name,
        "version": known.ref.version,
        "uri": known.ref.uri,
        "estimator": card.entry,
        "features": [metric["metric"] for metric in card.metrics],
        "groups": list(card.groups),
        "own_models": list(card.own),
        "threshold": card.threshold,
        "data_digest": card.data_digest,
        "serves": registered(),
    }


def _served(found: Located) -> Engine:
    engine = TrainedEngine.read(found.directory)
    return Served(engine, _ref(engine.card, found))


def _head(found: Located) -> Head:
    card = EngineCard.read(found.directory)
    return Head(card, _ref(card, found))


def _ref(card: EngineCard, found: Located) -> ModelRef:
    return ref(found, card.entry, card.data_digest)
