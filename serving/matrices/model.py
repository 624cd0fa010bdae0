"""Which model answers about matrices: the registry's champion, or the one that the user names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data.matrices.params import Matrices
from serving.comparisons.model import ModelRef, loaded, ref
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.champions import Located, project_params


@dataclass(frozen=True)
class ServedEngine:
    """A trained engine that gives verdicts, and where it comes from."""

    engine: TrainedEngine
    ref: ModelRef


def load(uri: str | None = None) -> ServedEngine:
    """Load the model that judges matrices.

    Parameters
    ----------
    uri : str, optional
        A directory with ``model.skops`` and ``card.json``, or ``models:/name@alias`` or
        ``models:/name/version`` of the registry. By default the champion.

    Raises
    ------
    InputError
        If there is no such model; without a champion it names the command which makes one.
    """
    return loaded(registered, uri, _served)


def registered() -> str:
    """Return the name under which models of matrices are registered."""
    return project_params(Matrices).section.promote.name


def described(uri: str | None = None) -> dict[str, Any]:
    """Say what ``/v1/models`` has of the model, without reading the model itself; errors as of `load`."""
    return loaded(registered, uri, _told)


def _served(found: Located) -> ServedEngine:
    engine = TrainedEngine.read(found.directory)
    return ServedEngine(engine, _ref(engine.card, found))


def told(card: EngineCard, ref: ModelRef) -> dict[str, Any]:
    """Return what ``/v1/models`` has of a model."""
    return {
        "name": ref.name,
        "version": ref.version,
        "uri": ref.uri,
        "estimator": card.entry,
        "features": [metric["metric"] for metric in card.metrics],
        "groups": list(card.groups),
        "own_models": list(card.own),
        "threshold": card.threshold,
        "data_digest": card.data_digest,
        "serves": registered(),
    }


def _told(found: Located) -> dict[str, Any]:
    card = EngineCard.read(found.directory)
    return told(card, _ref(card, found))


def _ref(card: EngineCard, found: Located) -> ModelRef:
    return ref(found, card.entry, card.data_digest)
