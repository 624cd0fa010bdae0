"""A model that a server loads when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock
from typing import Generic, TypeVar

from data.errors import InputError
from serving.doors.problems import RefusedError

T = TypeVar("T")


@dataclass
class Lazy(Generic[T]):
    """A model that is loaded when it is first asked for, once."""

    load: Callable[[], T]
    _loaded: T | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def loaded(self) -> T | None:
        """The model, if it was asked for."""
        return self._loaded

    def get(self) -> T:
        """Return the model.

        Raises
        ------
        RefusedError
            503 if there is none.
        """
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self.load()
                except InputError as exc:
                    raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc
            return self._loaded
