"""Which model answers: the registry's champion, or the one that the user names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from zipfile import BadZipFile

from data.errors import InputError
from training.ready import ReadyModel

#: The name under which models of comparisons are registered.
REGISTERED = "regression-comparison"


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
    from training.registry import load_champion, load_model

    try:
        model, version, address = load_champion(REGISTERED) if uri is None else load_model(uri)
    except (ValueError, TypeError, KeyError, BadZipFile) as exc:
        raise InputError("holds no model that training wrote", file=uri) from exc
    if floor is not None:
        model = replace(model, card=replace(model.card, floor=floor))
    return Served(model, ModelRef(_name(model, address), version or model.card.data_digest[:12], address))


def _name(model: ReadyModel, address: str) -> str:
    """Return the registered name, or for a model in a directory what its card calls it."""
    if address.startswith("models:/"):
        return address.removeprefix("models:/").partition("/")[0].partition("@")[0]
    return model.card.model
