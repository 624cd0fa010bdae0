"""The served models: each is loaded once, and replaced when its alias moves."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
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
from serving.plugins import Loader, Registered, all_endpoints, kind_problem
from training.registry.champions import CHAMPION, Version, follows_alias, resolve_address, served_version

LOG = logging.getLogger("perfjudge")
#: Seconds until a version that could not be loaded is tried again: first, doubled up to the maximum.
_SOON, _LATE = 2.0, 60.0
#: Maximum number of characters of a reported reason.
_LONGEST = 500


@dataclass(frozen=True)
class AnsweringModel:
    """The version in use, its card with ``ref``, loaded model (None until needed), and start time."""

    version: Version
    metadata: Any
    loaded: Any
    since: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class LoadFailure:
    """Why the model in use is not the version that the alias names."""

    reason: str
    #: ``identity_key`` of the version that failed; None if the alias could not be resolved.
    identity: object
    #: Seconds until the next attempt, and its time by `time.monotonic`.
    wait: float
    retry_at: float


@dataclass
class HotReloadingModel:
    """A model that is loaded on first use, by any process of a server, and follows its registry alias.

    The current version keeps answering until the next one is loaded and has passed a test request. Requests
    keep the model that they began with.
    """

    loader: Loader
    uri: str | None = None  # the model's address; None: the champion
    params: Mapping[str, Any] = field(default_factory=dict)  # further keyword arguments for loading
    version_file: Path | None = None  # where the processes of one server share the last version loaded
    swaps: int = 0  # number of times a version replaced another one
    after_load: Callable[[], object] = lambda: None  # called when `ensure_loaded` has loaded the model
    _current: AnsweringModel | None = None
    _failure: LoadFailure | None = None
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def from_options(
        cls, model: Registered, loader: Loader, options: Mapping[str, Any], shared: str | None = None
    ) -> HotReloadingModel:
        """Return a registered model that is configured by the given options of ``perfjudge serve``.

        InputError if `options` name a model that does not exist; for an `eager` model, and for a missing
        champion, only `ensure_loaded` raises it.
        """
        params = {name: options[name] for name in model.params if options.get(name) is not None}
        version_file = None if shared is None else Path(shared) / f"{model.key}.json"
        uri = options.get(model.key)
        served = cls(loader, uri, params, version_file)
        if not served.eager:
            with suppress(*(() if uri else (InputError,))):
                served._current = served._read_version(resolve_address(loader.name, uri), whole=False)
        return served

    @property
    def eager(self) -> bool:
        """Whether the server loads the model before it listens, because its card cannot be read alone."""
        return self.loader.card is None

    @property
    def ref(self) -> ModelRef | None:
        """The version in use; None while no model is known."""
        return None if self._current is None else self._current.metadata.ref

    @property
    def champion_missing(self) -> bool:
        """Whether no address was given and the registry, which must answer, has no champion."""
        if self.uri is not None or self.ref is not None:
            return False
        with suppress(InputError):
            return served_version(f"models:/{self.loader.name()}@{CHAMPION}") is None
        return False

    @property
    def load_failure(self) -> str | None:
        """Reason why the version that the alias names is not used; None if it is."""
        return None if self._failure is None else self._failure.reason

    @property
    def loaded_model(self) -> Any:
        """The model, if `ensure_loaded` would not have to load it; else None."""
        return None if self._current is None else self._current.loaded

    @property
    def models_entry(self) -> Mapping[str, Any] | None:
        """The entry of ``/v1/models``; None while no model is known."""
        if (current := self._current) is None:
            return None
        about = {"serves": self.loader.name(), "since": current.since, "load_failure": self.load_failure}
        return {**asdict(current.metadata.ref), **self.loader.describe_model(current.metadata), **about}

    @property
    def readiness_entry(self) -> Mapping[str, Any] | None:
        """The entry of ``/readyz``; None while neither a model nor a failure is known."""
        if self.ref is None and self._failure is None:
            return None
        version = None if self.ref is None else self.ref.version
        return {"serves": self.loader.name(), "version": version, "load_failure": self.load_failure}

    def ensure_loaded(self) -> Any:
        """Return the model, loading it if needed; InputError if that fails."""
        model = self.loaded_model
        if model is None:
            with self._lock:
                model = self.loaded_model
                if model is None:
                    # another thread may replace the version in use at any time
                    current = self._current = self._load_first()
                    model = current.loaded
                    self.after_load()
        return model

    def follow_processes(self) -> None:
        """Load the model if another process of this server has loaded it, so that requests need not wait."""
        if self.loaded_model is None and self._failure is None and self._stored_version() is not None:
            with suppress(InputError):
                self.ensure_loaded()

    def check_alias(self) -> None:
        """Resolve the alias, if any, and switch to its version; record failures in `load_failure`."""
        if not follows_alias(self.uri):
            return
        before, version = self._current, None
        try:
            version = resolve_address(self.loader.name, self.uri)
            before, failure = self._current, self._failure_of(version)
            if before is not None and before.version.identity_key == version.identity_key:
                # a version that could not be loaded on request is tried again at the next request
                if self.loaded_model is not None or failure is None:
                    self._clear_failure(version)
                return
            if failure is not None and monotonic() < failure.retry_at:
                return
            self._current = self._read_version(version, whole=self.eager or self.loaded_model is not None)
        except Exception as exc:  # noqa: BLE001 - the current model stays, whatever is wrong
            # without model and version, requests are refused with this reason
            if version is not None or before is not None:
                self._record_failure(exc, version, before)
            return
        if before is not None:
            self.swaps += 1
            LOG.info("%s answers in place of %s", version.uri, before.metadata.ref.uri)
        self._clear_failure(version)

    def _failure_of(self, version: Version | None) -> LoadFailure | None:
        identity = None if version is None else version.identity_key
        return self._failure if self._failure is not None and self._failure.identity == identity else None

    def _load_first(self) -> AnsweringModel:
        """Load the current or the named version, or else the last one that another process has loaded."""
        version = None if self._current is None else self._current.version
        try:
            version = version or resolve_address(self.loader.name, self.uri)
            current = self._read_version(version, whole=True)
        except InputError as exc:
            remembered = self._stored_version()
            if remembered and (version is None or remembered.identity_key != version.identity_key):
                current = self._read_version(remembered, whole=True)
                self._record_failure(exc, version, current)
                return current
            if self._current is not None:
                self._record_failure(exc, version, None)
            raise
        if self._failure_of(version) is not None:
            self._clear_failure(version)
        return current

    def _read_version(self, version: Version, *, whole: bool) -> AnsweringModel:
        """Read a version; unless `whole`, only its card, if the loader can; InputError if that fails."""
        try:
            if not whole and self.loader.card is not None:
                return AnsweringModel(version, self.loader.card(version), None)
            model = self.loader.load_and_test(version, self.params)
        except InputError as exc:
            if problem := kind_problem(version, self.loader.name()):
                raise InputError(problem, file=version.uri) from exc
            raise
        if self.version_file is not None and version.version:
            with suppress(OSError):
                write_json(self.version_file, asdict(version))
        return AnsweringModel(version, model, model)

    def _stored_version(self) -> Version | None:
        if self.version_file is not None:
            with suppress(OSError, ValueError, TypeError):
                return Version(**json.loads(self.version_file.read_bytes()))
        return None

    def _record_failure(
        self, exc: Exception, version: Version | None, current: AnsweringModel | None
    ) -> None:
        reason = " ".join(f"{exc}".split())[:_LONGEST] or type(exc).__name__
        before = self._failure_of(version)
        wait = _SOON if before is None else min(2 * before.wait, _LATE)
        identity = None if version is None else version.identity_key
        self._failure = LoadFailure(reason, identity, wait, monotonic() + wait)
        if before is None:
            answering = "nothing" if current is None else current.metadata.ref.uri
            LOG.warning("%s: %s; %s answers meanwhile", self.loader.name(), reason, answering)

    def _clear_failure(self, version: Version) -> None:
        if self._failure is not None:
            self._failure = None
            LOG.warning("%s: all is well again, %s answers", self.loader.name(), version.uri)


def all_models(options: Mapping[str, Any], shared: str | None = None) -> dict[str, HotReloadingModel]:
    """Return the models of all endpoints by their key; cards are read here, models when first used.

    `options` are the given options of ``perfjudge serve`` by name, `shared` is the directory that the
    processes of one server share (None: there is one process). InputError if an option names a model whose
    card is missing or invalid; a missing champion is no error here.
    """
    models: dict[str, HotReloadingModel] = {}
    for endpoint in all_endpoints():
        model, loader = endpoint.model, endpoint.loader
        if model and loader and model.key not in models:
            models[model.key] = HotReloadingModel.from_options(model, loader, options, shared)
    return models


@contextmanager
def follow_aliases(models: Collection[HotReloadingModel], seconds: float) -> Iterator[None]:
    """Let a thread update `models` every `seconds` during the block, without waiting for it at the end."""
    ended = Event()

    def check_aliases() -> None:
        while not ended.wait(seconds):
            for model in models:
                model.check_alias()
                model.follow_processes()

    # not joined at the end, as it may be waiting for a registry that does not answer
    Thread(target=check_aliases, name="registry", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
