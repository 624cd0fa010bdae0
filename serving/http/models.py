"""The served models: each is loaded once, and replaced when its alias moves."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from data.errors import InputError
from data.tables.files import write_json
from serving.models import ModelRef
from serving.supply import Loader, Registered, doors
from training.registry.champions import CHAMPION, Version, follows, found, registered

LOG = logging.getLogger("perfjudge")
#: Seconds until a version that could not be loaded is tried again: first, doubled up to the maximum.
_SOON, _LATE = 2.0, 60.0
#: Maximum number of characters of a reported reason.
_LONGEST = 500


@dataclass(frozen=True)
class AnsweringModel:
    """The version in use: its address, card with ``ref``, loaded model (None until needed), start time."""

    address: str | Version
    known: Any
    loaded: Any
    since: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class LoadFailure:
    """Why the model in use is not the version that the alias names."""

    told: str
    version: Version | None
    #: Seconds until the next attempt, and its time by `time.monotonic`.
    wait: float
    again: float


@dataclass
class HotReloadingModel:
    """A model that is loaded on first use and follows its registry alias.

    The current version keeps answering until the next one is loaded and has passed a trial request. Requests
    keep the model that they began with.

    Attributes
    ----------
    uri : str or None
        The model's address; None: the champion.
    knobs : mapping
        Further keyword arguments for loading.
    kept : Path or None
        File in which the processes of one server share the last version that was loaded.
    swaps : int
        Number of times a version replaced another one.
    """

    loader: Loader
    uri: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    kept: Path | None = None
    swaps: int = 0
    _standing: AnsweringModel | None = None
    _trouble: LoadFailure | None = None
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(
        cls, model: Registered, loader: Loader, given: Mapping[str, Any], shared: str | None = None
    ) -> HotReloadingModel:
        """Return a registered model with the options `given` to the server.

        `shared` is the directory that the processes of one server share. InputError if the options name a
        model that does not exist; a missing champion is an error only in `get`.
        """
        knobs = {name: given[name] for name in model.knobs if given.get(name) is not None}
        kept = None if shared is None else Path(shared) / f"{model.key}.json"
        lazy = cls(loader, given.get(model.key), knobs, kept)
        if not lazy.eager:
            with suppress(*(() if lazy.uri else (InputError,))):
                lazy._standing = lazy._read(found(loader.name, lazy.uri), whole=False)
        return lazy

    @property
    def eager(self) -> bool:
        """Whether the server loads it before it listens."""
        return self.loader.card is None

    @property
    def ref(self) -> ModelRef | None:
        """The version in use; None while no model is known."""
        ref: ModelRef | None = None if self._standing is None else self._standing.known.ref
        return ref

    @property
    def absent(self) -> bool:
        """Whether no address was given and the registry has no champion."""
        if self.uri is not None or self.ref is not None:
            return False
        with suppress(InputError):
            return registered(f"models:/{self.loader.name()}@{CHAMPION}") is None
        return False

    @property
    def since(self) -> datetime | None:
        """Time when the version in use began to answer; None while no model is known."""
        return None if self._standing is None else self._standing.since

    @property
    def trouble(self) -> str | None:
        """Reason why the version that the alias names is not used; None if it is."""
        return None if self._trouble is None else self._trouble.told

    @property
    def loaded(self) -> Any:
        """The model, if `get` would not have to load it; else None."""
        return None if self._standing is None else self._standing.loaded

    @property
    def entry(self) -> Mapping[str, Any] | None:
        """The entry of ``/v1/models``; None while no model is known."""
        if (standing := self._standing) is None:
            return None
        about = {"serves": self.loader.name(), "since": standing.since, "trouble": self.trouble}
        return {**asdict(standing.known.ref), **self.loader.told(standing.known), **about}

    @property
    def health(self) -> Mapping[str, Any] | None:
        """The entry of ``/readyz``; None while neither a model nor a failure is known."""
        if self.ref is None and self._trouble is None:
            return None
        version = None if self.ref is None else self.ref.version
        return {"serves": self.loader.name(), "version": version, "trouble": self.trouble}

    def get(self) -> Any:
        """Return the model, loading it if needed; InputError if that fails."""
        standing = self._standing
        if standing is None or standing.loaded is None:
            with self._lock:
                standing = self._standing
                if standing is None or standing.loaded is None:
                    standing = self._standing = self._first()
        return standing.loaded

    def check_alias(self) -> None:
        """Resolve the alias and switch to its version; failures are recorded in `trouble`."""
        if not follows(self.uri):
            return
        try:
            version = found(self.loader.name, self.uri)
        except Exception as exc:  # noqa: BLE001 - the current model stays, whatever is wrong
            # without a model, requests are refused with this reason
            if self._standing is not None:
                self._record_failure(exc, None, self._standing)
            return
        assert isinstance(version, Version)
        before = self._standing
        if before is not None and _identity(before.address) == version.identity:
            # a version that could not be loaded on request is tried again at the next request
            if self.loaded is not None or not self._failed(version):
                self._clear_failure(version)
            return
        if self._failed(version) and self._trouble is not None and monotonic() < self._trouble.again:
            return
        try:
            self._standing = self._read(version, whole=self.eager or self.loaded is not None)
        except Exception as exc:  # noqa: BLE001 - the current model stays, whatever is wrong
            self._record_failure(exc, version, before)
            return
        if before is not None:
            self.swaps += 1
            LOG.info("%s answers in place of %s", version.uri, before.known.ref.uri)
        self._clear_failure(version)

    def _failed(self, version: Version | None) -> bool:
        return self._trouble is not None and _identity(self._trouble.version) == _identity(version)

    def _first(self) -> AnsweringModel:
        """Load the current or the named version, or else the last one that another process has loaded."""
        address = None if self._standing is None else self._standing.address
        try:
            address = address or found(self.loader.name, self.uri)
            standing = self._read(address, whole=True)
        except InputError as exc:
            version = address if isinstance(address, Version) else None
            if (remembered := self._remembered()) is not None:
                standing = self._read(remembered, whole=True)
                self._record_failure(exc, version, standing)
                return standing
            if self._standing is not None:
                self._record_failure(exc, version, None)
            raise
        if isinstance(address, Version) and self._failed(address):
            self._clear_failure(address)
        return standing

    def _read(self, address: str | Version, *, whole: bool) -> AnsweringModel:
        """Read a version; unless `whole`, only its card, if the loader can."""
        if not whole and self.loader.card is not None:
            return AnsweringModel(address, self.loader.card(address), None)
        model = self.loader.tried(address, self.knobs)
        if self.kept is not None and isinstance(address, Version):
            with suppress(OSError):
                write_json(self.kept, asdict(address))
        return AnsweringModel(address, model, model)

    def _remembered(self) -> Version | None:
        try:
            return None if self.kept is None else Version(**json.loads(self.kept.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def _record_failure(
        self, exc: Exception, version: Version | None, standing: AnsweringModel | None
    ) -> None:
        """Record why `standing` answers instead of the alias's version; log a new failure once."""
        reason = " ".join(f"{exc}".split())[:_LONGEST] or type(exc).__name__
        repeated = self._failed(version)
        wait = min(2 * self._trouble.wait, _LATE) if self._trouble is not None and repeated else _SOON
        self._trouble = LoadFailure(reason, version, wait, monotonic() + wait)
        if not repeated:
            answering = "nothing" if standing is None else standing.known.ref.uri
            LOG.warning("%s: %s; %s answers meanwhile", self.loader.name(), reason, answering)

    def _clear_failure(self, version: Version) -> None:
        if self._trouble is not None:
            self._trouble = None
            LOG.warning("%s: all is well again, %s answers", self.loader.name(), version.uri)


def _identity(address: str | Version | None) -> object:
    return address.identity if isinstance(address, Version) else address


def all_models(given: Mapping[str, Any], shared: str | None = None) -> dict[str, HotReloadingModel]:
    """Return the models of all endpoints by key; parameters and errors as of `HotReloadingModel.of`."""
    needed = {door.model.key: (door.model, door.loader) for door in doors() if door.model and door.loader}
    return {
        key: HotReloadingModel.of(model, loader, given, shared) for key, (model, loader) in needed.items()
    }


@contextmanager
def following(models: Collection[HotReloadingModel], seconds: float) -> Iterator[None]:
    """While the block runs, let `models` follow their aliases, checked every `seconds`."""
    ended = Event()

    def check_aliases() -> None:
        while not ended.wait(seconds):
            for model in models:
                model.check_alias()

    # not joined at the end, as it may be waiting for a registry that does not answer
    Thread(target=check_aliases, name="registry", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
