"""Which models answer about co-runs: the registry's champions, or those that the user names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from serving.model import ModelRef
from training.known_tasks import KnownTasks
from training.registry import Located, located
from training.trained_impact import ImpactCard, OnlineCard, TrainedImpact, TrainedOnline

#: The names under which the models are registered.
STATIC, ONLINE = "corun-static", "corun-online"
#: Co-runs that arrays answer sooner than the model itself, which has to be read first.
FEW = 5000
Floats = NDArray[np.float64]
T = TypeVar("T")
Card = TypeVar("Card", ImpactCard, OnlineCard)


@dataclass(frozen=True)
class Static:
    """The model of tasks with a history, the solo runs that it knows, and where it comes from.

    Attributes
    ----------
    card : ImpactCard
    known : KnownTasks
    ref : ModelRef
    quick, load : callable
        Return what answers a few co-runs soonest, and the model itself. Each is read once: a question that
        cannot be answered need not wait for it.
    """

    card: ImpactCard
    known: KnownTasks
    ref: ModelRef
    quick: Callable[[], TrainedImpact]
    load: Callable[[], TrainedImpact]

    def impacts(self, rows: pd.DataFrame) -> Floats:
        """Return the impacts of rows as `KnownTasks.rows` makes them."""
        model = self.quick() if len(rows) <= FEW else self.load()
        return model.predict(rows)["impact"].to_numpy(np.float64)

    def ready(self) -> Static:
        """Return the same, what answers read; InputError if that cannot be."""
        self.quick()
        return self


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
    static = _loaded(STATIC, uri, _static)
    if further is None:
        return static
    from data.corun_tables import CorunTables

    known = static.known.with_others(KnownTasks.of(CorunTables.read(further)))
    return replace(static, known=known)


def _static(found: Located) -> Static:
    # by its version, so that card and model belong together
    def reading(read: Callable[[Path], TrainedImpact]) -> Callable[[], TrainedImpact]:
        return cache(lambda: _loaded(STATIC, found.uri, lambda again: read(again.directory)))

    card, known = ImpactCard.read(found.directory), KnownTasks.read(found.directory)
    quick, load = reading(TrainedImpact.read_quick), reading(TrainedImpact.read)
    return Static(card, known, _ref(STATIC, card, found), quick, load)


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
