"""Which model answers: the registry's champion, or the one that the user names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from data.comparisons.params import Comparisons
from data.errors import InputError
from training.comparisons.ready import ReadyModel
from training.registry.champions import FOREIGN, Located, located, project_params

T = TypeVar("T")


@dataclass(frozen=True)
class ModelRef:
    """Where a model comes from, as answers name it."""

    name: str
    version: str
    uri: str


@dataclass(frozen=True)
class Served:
    """A trained model that gives verdicts, and where it comes from."""

    model: ReadyModel
    ref: ModelRef


def load(uri: str | None = None, floor: float | None = None) -> Served:
    """Load the model that gives the verdicts.

    Parameters
    ----------
    uri : str, optional
        A directory with ``model.skops`` and ``card.json``, or ``models:/name@alias`` or
        ``models:/name/version`` of the registry. By default the champion.
    floor : float, optional
        The smallest change of a median that may be called a regression, as a share; by default its own.

    Raises
    ------
    InputError
        If there is no such model; without a champion it names the command which makes one.
    """
    served = loaded(registered, uri, _served)
    if floor is None:
        return served
    model = replace(served.model, card=replace(served.model.card, floor=floor))
    return replace(served, model=model)


def registered() -> str:
    """Return the name under which models of comparisons are registered."""
    return project_params(Comparisons).section.promote.name


def loaded(name: Callable[[], str], uri: str | None, read: Callable[[Located], T]) -> T:
    """Read a model, or what is to be known of it.

    Parameters
    ----------
    name, uri
        As of `training.registry.champions.located`.
    read : callable

    Raises
    ------
    InputError
        If there is no such model, or it cannot be read.
    """
    try:
        with located(name, uri) as found:
            return read(found)
    except FOREIGN as exc:
        raise InputError(f"holds no {name()} model that training wrote", file=uri) from exc


def _served(found: Located) -> Served:
    model = ReadyModel.read(found.directory)
    return Served(model, ref(found, model.card.model, model.card.data_digest))


def ref(found: Located, model: str, data_digest: str) -> ModelRef:
    """Return how answers name a model that its card calls `model`."""
    return ModelRef(found.name(model), found.version or data_digest[:12], found.uri)
