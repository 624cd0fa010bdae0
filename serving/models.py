"""Models of any family that answer, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from data.errors import InputError
from serving.doors.schemas import ServedModel
from serving.supply import Loader
from training.registry.champions import FOREIGN, Located, located

T = TypeVar("T")


class Carded(Protocol):
    """A trained model with its card."""

    @property
    def card(self) -> Any:
        """What is known of it without loading it."""


Model = TypeVar("Model", bound=Carded)


@dataclass(frozen=True)
class ModelRef:
    """Where a model comes from, as answers name it."""

    name: str
    version: str
    uri: str


@dataclass(frozen=True)
class Head:
    """What is known of a model without loading it: its card, and where it comes from."""

    card: Any
    ref: ModelRef


@dataclass(frozen=True)
class Served(Generic[Model]):
    """A trained model that answers, and where it comes from."""

    model: Model
    ref: ModelRef

    @property
    def card(self) -> Any:
        """What is known of it without loading it."""
        return self.model.card


def loaded(name: Callable[[], str], uri: str | None, read: Callable[[Located], T]) -> T:
    """Read a model, or what is to be known of it.

    Parameters
    ----------
    name : callable
        Returns the registered name whose champion is meant where `uri` is None.
    uri : str or None
        A directory with ``model.skops`` and ``card.json``, or ``models:/name@alias`` or
        ``models:/name/version`` of the registry.
    read : callable

    Raises
    ------
    InputError
        If there is no such model, or it cannot be read; without a champion it names the command which makes
        one.
    """
    try:
        with located(name, uri) as found:
            return read(found)
    except FOREIGN as exc:
        raise InputError(f"holds no {name()} model that training wrote", file=uri) from exc


def ref(found: Located, model: str, data_digest: str) -> ModelRef:
    """Return how answers name a model that its card calls `model`."""
    return ModelRef(found.name(model), found.version or data_digest[:12], found.uri)


def loader(name: Callable[[], str], read: Callable[[Path], Carded]) -> Loader:
    """Return how a model is read and told of whose card has ``model, features, data_digest``.

    Parameters
    ----------
    name : callable
        Returns the registered name.
    read : callable
        Reads a model from a directory.
    """

    def served(found: Located) -> Served[Carded]:
        model = read(found.directory)
        return Served(model, ref(found, model.card.model, model.card.data_digest))

    def told(known: Served[Carded]) -> dict[str, Any]:
        card = known.card
        return {"estimator": card.model, "features": card.features, "data_digest": card.data_digest}

    return Loader(name, lambda uri=None: loaded(name, uri, served), told, ServedModel)
