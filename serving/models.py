"""Served models of any family, and how they are found and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from training.registry.champions import DIGEST, Address, Version, files_digest, locate_model
from training.registry.stored import StoredCard

if TYPE_CHECKING:
    from serving.http.schemas import ModelAnswer


class Carded(Protocol):
    """A trained model with its card."""

    @property
    def card(self) -> Any:
        """The model's metadata, known without loading the model."""


Model = TypeVar("Model", bound=Carded)


@dataclass(frozen=True)
class ModelRef:
    """The origin of a model, as answers name it: name, version, address, and the digest of its files."""

    name: str
    version: str
    uri: str
    digest: str = ""

    @property
    def model_answer(self) -> ModelAnswer:
        """The reference in JSON answers."""
        from serving.http.schemas import ModelAnswer

        return ModelAnswer(**asdict(self))


@dataclass(frozen=True)
class Head:
    """Metadata of a model that need not be loaded: its card and its source."""

    card: Any
    ref: ModelRef


@dataclass(frozen=True)
class Served(Generic[Model]):
    """A trained model and its origin."""

    model: Model
    ref: ModelRef

    @property
    def card(self) -> Any:
        """The model's card."""
        return self.model.card


@dataclass(frozen=True)
class Source(Generic[Model]):
    """Functions to find and read models of one kind.

    `name` returns the registered name of these models, `read` the model in a directory, and `card` only its
    card; `name_attribute` is the attribute of the card that names the model.
    """

    name: Callable[[], str]
    read: Callable[[Path], Model]
    card: Callable[[Path], StoredCard]
    name_attribute: str = "model"

    def make_ref(self, directory: Path, version: Version, card: Any) -> ModelRef:
        """Return the reference of a model in `directory`, by its `card` if the version is not registered."""
        return ModelRef(
            version.name or getattr(card, self.name_attribute),
            version.version or card.data_digest[:12],
            version.uri,
            version.tags.get(DIGEST) or files_digest(directory),
        )

    def load(self, uri: Address = None) -> Served[Model]:
        """Return a model (None: the champion) and its origin; InputError if missing or unreadable."""
        with locate_model(self.name, uri) as (directory, version):
            model = self.read(directory)
            return Served(model, self.make_ref(directory, version, model.card))

    def load_card(self, uri: Address = None) -> Head:
        """Return card and origin of a model (None: the champion); InputError if missing or unreadable."""
        with locate_model(self.name, uri) as (directory, version):
            card = self.card(directory)
            return Head(card, self.make_ref(directory, version, card))
