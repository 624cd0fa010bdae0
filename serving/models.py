"""Models of any family that answer, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from data.errors import InputError
from serving.http.schemas import ModelAnswer
from training.registry.champions import FOREIGN, Address, Located, Version, located
from training.registry.stored import StoredCard

T = TypeVar("T")


class Carded(Protocol):
    """A trained model with its card."""

    @property
    def card(self) -> Any:
        """The model's metadata, known without loading the model."""


Model = TypeVar("Model", bound=Carded)


@dataclass(frozen=True)
class ModelRef:
    """Where a model comes from, as answers name it; with the digest of its files."""

    name: str
    version: str
    uri: str
    digest: str = ""

    @property
    def answer(self) -> ModelAnswer:
        """The same in JSON."""
        return ModelAnswer(**asdict(self))


@dataclass(frozen=True)
class Head:
    """Metadata of a model that need not be loaded: its card and its source."""

    card: Any
    ref: ModelRef


@dataclass(frozen=True)
class Served(Generic[Model]):
    """A trained model that answers, and where it comes from."""

    model: Model
    ref: ModelRef

    @property
    def card(self) -> Any:
        """The model's card."""
        return self.model.card


def loaded(name: Callable[[], str], uri: Address, read: Callable[[Located], T]) -> T:
    """Locate a model and return the result of `read`: the model, or only its card.

    Parameters
    ----------
    name : callable
        Returns the registered name whose champion is used if `uri` is None.
    uri : str or Version or None
        A directory with ``model.skops`` and ``card.json``, ``models:/name@alias`` or
        ``models:/name/version``.
    read : callable
        Takes the located model.

    Raises
    ------
    InputError
        If the model is missing or unreadable; without a champion, the message names the command to make one.
    """
    try:
        with located(name, uri) as found:
            return read(found)
    except FOREIGN as exc:
        where = uri.uri if isinstance(uri, Version) else uri
        raise InputError(f"holds no {name()} model that training wrote", file=where) from exc


@dataclass(frozen=True)
class Source(Generic[Model]):
    """How models of a kind are found and read.

    `name` returns their registered name; `called` is the attribute of the card that names the model.
    """

    name: Callable[[], str]
    read: Callable[[Path], Model]
    card: Callable[[Path], StoredCard]
    called: str = "model"

    def ref(self, found: Located, card: Any) -> ModelRef:
        """Return how answers name the model that has a card."""
        version = found.version or card.data_digest[:12]
        return ModelRef(found.name(getattr(card, self.called)), version, found.uri, found.digest)

    def load(self, uri: Address = None) -> Served[Model]:
        """Load a model, by default the champion; errors as of `loaded`."""

        def served(found: Located) -> Served[Model]:
            model = self.read(found.directory)
            return Served(model, self.ref(found, model.card))

        return loaded(self.name, uri, served)

    def head(self, uri: Address = None) -> Head:
        """Read what is to be known of a model, without the model; errors as of `loaded`."""

        def head(found: Located) -> Head:
            card = self.card(found.directory)
            return Head(card, self.ref(found, card))

        return loaded(self.name, uri, head)
