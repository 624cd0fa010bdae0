"""Which models answer about co-runs: the registry's champions, or those that the user names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

from data.errors import InputError
from serving.model import ModelRef
from training.known_tasks import KnownTasks
from training.registry import Located, located
from training.trained_impact import ImpactCard, OnlineCard, TrainedImpact, TrainedOnline

#: The names under which the models are registered.
STATIC, ONLINE = "corun-static", "corun-online"
T = TypeVar("T")
Card = TypeVar("Card", ImpactCard, OnlineCard)


@dataclass(frozen=True)
class Static:
    """The model of tasks with a history, the solo runs that it knows, and where it comes from."""

    model: TrainedImpact
    known: KnownTasks
    ref: ModelRef

    @property
    def card(self) -> ImpactCard:
        """What is to be known of the model."""
        return self.model.card


@dataclass(frozen=True)
class Online:
    """The model of new tasks, and where it comes from."""

    model: TrainedOnline
    ref: ModelRef

    @property
    def card(self) -> OnlineCard:
        """What is to be known of the model."""
        return self.model.card


def load_static(uri: str | None = None, further: Path | None = None) -> Static:
    """Load the model that answers before a run.

    Parameters
    ----------
    uri : str, optional
        A directory, or ``models:/name@alias`` or ``models:/name/version`` of the registry. By default the
        champion.
    further : Path, optional
        A directory of tables with solo runs of further tasks.

    Raises
    ------
    InputError
        If there is no such model; without a champion it names the command which makes one.
    """
    static = _loaded(
        STATIC,
        uri,
        lambda found: Static(
            TrainedImpact.read(found.directory),
            KnownTasks.read(found.directory),
            _ref(STATIC, ImpactCard.read(found.directory), found),
        ),
    )
    if further is None:
        return static
    from data.corun_tables import CorunTables

    known = static.known.with_others(KnownTasks.of(CorunTables.read(further)))
    return Static(static.model, known, static.ref)


def load_online(uri: str | None = None) -> Online:
    """Load the model that answers from the first samples; parameters and errors as of `load_static`."""
    return _loaded(
        ONLINE,
        uri,
        lambda found: Online(
            TrainedOnline.read(found.directory), _ref(ONLINE, OnlineCard.read(found.directory), found)
        ),
    )


def static_card(uri: str | None = None) -> tuple[ImpactCard, ModelRef]:
    """Read what is to be known of the static model, without the model; errors as of `load_static`."""
    return _loaded(STATIC, uri, lambda found: _with_ref(STATIC, ImpactCard.read(found.directory), found))


def online_card(uri: str | None = None) -> tuple[OnlineCard, ModelRef]:
    """Read what is to be known of the online model, without the model; errors as of `load_static`."""
    return _loaded(ONLINE, uri, lambda found: _with_ref(ONLINE, OnlineCard.read(found.directory), found))


def _loaded(name: str, uri: str | None, read: Callable[[Located], T]) -> T:
    try:
        with located(name, uri) as found:
            return read(found)
    except (ValueError, TypeError, KeyError, BadZipFile) as exc:
        raise InputError(f"holds no {name} model that training wrote", file=uri) from exc


def _with_ref(name: str, card: Card, found: Located) -> tuple[Card, ModelRef]:
    return card, _ref(name, card, found)


def _ref(name: str, card: ImpactCard | OnlineCard, found: Located) -> ModelRef:
    registered = found.uri.startswith("models:/")
    return ModelRef(name if registered else card.model, found.version or card.data_digest[:12], found.uri)
