"""A model that a server loads when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

from data.errors import InputError
from serving.models import ModelRef
from serving.supply import Loader, Registered, doors


@dataclass
class Lazy:
    """A model that is loaded when it is first asked for, once: the version that was found at the start.

    Attributes
    ----------
    loader : Loader
    uri : str or None
        The address that was given; None: the champion.
    knobs : mapping
        What loading takes beside the address.
    """

    loader: Loader
    uri: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    _known: Any = None
    _loaded: Any = None
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, model: Registered, loader: Loader, given: Mapping[str, Any]) -> Lazy:
        """Name a model by the options that were given.

        Raises
        ------
        InputError
            If one that is named does not exist; without a champion, only asking for it is refused.
        """
        knobs = {name: given[name] for name in model.knobs if given.get(name) is not None}
        lazy = cls(loader, given.get(model.key), knobs)
        if loader.card is not None:
            with suppress(*(() if lazy.uri else (InputError,))):
                lazy._known = loader.card(lazy.uri)
        return lazy

    @property
    def eager(self) -> bool:
        """Whether the server waits for it before it listens."""
        return self.loader.card is None

    @property
    def ref(self) -> ModelRef | None:
        """Which version answers; None while there is none."""
        found: ModelRef | None = None if self._known is None else self._known.ref
        return found

    @property
    def entry(self) -> Mapping[str, Any] | None:
        """What ``/v1/models`` says; None while there is no model."""
        if self.ref is None:
            return None
        return {**asdict(self.ref), **self.loader.told(self._known), "serves": self.loader.name()}

    def get(self) -> Any:
        """Return the model; InputError if there is none."""
        with self._lock:
            if self._loaded is None:
                # by its version: who is promoted meanwhile is another model
                uri = self.uri if self.ref is None else self.ref.uri
                self._loaded = self._known = self.loader.load(uri, **self.knobs)
            return self._loaded


def all_models(given: Mapping[str, Any]) -> dict[str, Lazy]:
    """Name the models of all doors, by their keys; parameters and errors as of `Lazy.of`."""
    needed = {door.model.key: (door.model, door.loader) for door in doors() if door.model and door.loader}
    return {key: Lazy.of(model, loader, given) for key, (model, loader) in needed.items()}
