"""Which versions of models are registered in MLflow, and where their files lie."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlparse
from zipfile import BadZipFile

from data.errors import InputError
from data.params import FamilyType, Params, load
from data.tables.files import PART, write_json

Answer = dict[str, Any] | None
#: Seconds that are longer than any tick by which files tell the time of a change.
_TICK = 0.05


def tracking_uri() -> str:
    """Return where MLflow keeps its runs and models: MLFLOW_TRACKING_URI, or mlflow.db in the project."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{project_root() / 'mlflow.db'}"


def project_root() -> Path:
    """Return the checkout that this file belongs to, or else the working directory."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "params.yaml").is_file() else Path.cwd()


def local_store() -> StoreFile | None:
    """Return the SQLite file of MLflow; None where it keeps its runs and models in another way."""
    uri = tracking_uri()
    return StoreFile(Path(uri.removeprefix("sqlite:///")).resolve()) if uri.startswith("sqlite:///") else None


@dataclass(frozen=True)
class StoreFile:
    """A file of SQLite in which MLflow keeps its runs and models."""

    path: Path

    def begin(self, fill: Callable[[Path], None]) -> None:
        """Make the file, with a write-ahead log, unless there is one; `fill` makes MLflow's tables in it.

        MLflow commits some thousand times and would wait for the disk each time. The file gets its name when
        it is complete, as one with half of the tables would never be of use.
        """
        if self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(PART, f".{self.path.name}.", self.path.parent) as scratch:
            begun = StoreFile(Path(scratch) / self.path.name)
            begun.run("PRAGMA journal_mode=WAL")
            fill(begun.path)
            # another process may have been quicker
            with suppress(FileExistsError):
                self.path.hardlink_to(begun.path)

    def answer(self, question: str, ask: Callable[[str], Answer]) -> Answer:
        """Return the remembered answer, or else ask; None without asking where there is no file.

        Raises
        ------
        InputError
            If the file is none of SQLite, or as `ask`.
        """
        if not self.path.is_file():
            # a client would make one
            return None
        now, state, noted = time.time(), self._state(), self._noted()
        known = noted.get("answers", {})
        answers = dict(known) if noted.get("state") == state else {}
        if question not in answers:
            self._check()
            answers |= {one: ask(one) for one in {*known, question} - set(answers)}
            # what was written a moment ago may be written again within the same tick of the file's clock
            if now - max((changed for _, changed in state), default=0) / 1e9 > _TICK:
                # where nothing can be written, MLflow is asked each time
                with suppress(OSError):
                    write_json(self._notes, {"state": state, "answers": answers})
        return answers[question]

    def refresh(self, ask: Callable[[str], Answer]) -> None:
        """Ask anew what was asked before, if the file has changed since."""
        noted = self._noted()
        if self.path.is_file() and noted.get("answers") and noted.get("state") != self._state():
            # what is in the log now would be moved later, and change the file
            self.run("PRAGMA wal_checkpoint(TRUNCATE)")
            time.sleep(2 * _TICK)
            self.answer(next(iter(noted["answers"])), ask)

    def run(self, statement: str) -> None:
        """Run a statement on a connection of its own."""
        with closing(sqlite3.connect(self.path)) as file:
            file.execute(statement)

    @property
    def _notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}-answers.json")

    def _check(self) -> None:
        # by SQLite itself: closing a file that was opened otherwise takes away the locks of its connections
        try:
            self.run("PRAGMA schema_version")
        except sqlite3.OperationalError as exc:
            raise InputError(f"cannot be read ({exc})", file=self.path) from exc
        except sqlite3.DatabaseError as exc:
            raise InputError("is not a store of MLflow (no file of SQLite)", file=self.path) from exc

    def _state(self) -> list[list[int]]:
        """Return sizes and times of the file, and of its log if that holds anything."""
        log = self.path.with_name(f"{self.path.name}-wal")
        found = [path.stat() for path in (self.path, log) if path.is_file()]
        return [[one.st_size, one.st_mtime_ns] for one in found if one.st_size]

    def _noted(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._notes.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}


#: The tag of a model's run, and of its version, that says what the model is in the registry.
STANDING = "standing"
#: What it says of one that nothing was decided of.
CANDIDATE = "candidate"
#: Set before MLflow is imported for the first time; it reads them once.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # a server that is not there is named after seconds, not after minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


def mlflow() -> Any:
    """Import MLflow, without telemetry, for the store of this project."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    mlflow.set_tracking_uri(tracking_uri())
    mlflow.set_registry_uri(tracking_uri())
    return mlflow


def client() -> Any:
    """Return a client of that store."""
    store = local_store()
    if store is not None:
        store.begin(_tables)
    return mlflow().MlflowClient()


def _tables(path: Path) -> None:
    """Let MLflow make its tables in a file of SQLite, and close it."""
    mlflow()
    from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store: Any = SqlAlchemyStore
    store(f"sqlite:///{path}", DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH).engine.dispose()


@dataclass(frozen=True)
class Tracked:
    """A model in MLflow: its run, its address, and its id unless it is files of that run."""

    run_id: str
    model_uri: str
    model_id: str | None = None


def note(store: Any, run_id: str, said: str) -> None:
    """Add a paragraph to the description of a run."""
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    before = store.get_run(run_id).data.tags.get(MLFLOW_RUN_NOTE)
    store.set_tag(run_id, MLFLOW_RUN_NOTE, f"{before}\n\n{said}" if before else said)


CHAMPION = "champion"
CHALLENGER = "challenger"
#: The tag of a version with the digest of its files; versions of before there was one are not checked.
DIGEST = "files_digest"
#: Of the files that reading a model may open.
_READ = (".json", ".npz", ".parquet", ".skops")
#: What reading a model raises that this code did not write.
FOREIGN = (ImportError, AttributeError, LookupError, TypeError, ValueError, BadZipFile)
_MODEL_URI = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+))")


@dataclass(frozen=True)
class Version:
    """A registered version of a model; `location` is the address of its files in MLflow."""

    name: str
    version: str
    tags: dict[str, str]
    location: str

    @property
    def uri(self) -> str:
        """Its address in MLflow."""
        return f"models:/{self.name}/{self.version}"

    @property
    def directory(self) -> Path | None:
        """Where its files are; None if a server has them."""
        if self.location.startswith("file:"):
            return Path(unquote(urlparse(self.location).path))
        return Path(self.location) if self.location.startswith("/") else None

    @property
    def present(self) -> bool:
        """Whether its files are still there; a server's are taken to be."""
        return self.directory is None or (self.directory / "model.skops").is_file()

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What two versions have in common that are the same files; other tags may have come meanwhile."""
        return self.name, self.version, self.location, self.tags.get(DIGEST)

    @contextmanager
    def files(self) -> Iterator[Path]:
        """Yield a directory with its files, or a copy; InputError if they have changed."""
        if self.directory is not None:
            yield self._checked(self.directory)
            return
        with downloaded(self.uri) as copy:
            yield self._checked(copy)

    def _checked(self, directory: Path) -> Path:
        if self.tags.get(DIGEST, found := files_digest(directory)) != found:
            raise InputError(f"files of {self.uri} have changed since it was registered", file=directory)
        return directory


#: A model: its address as people write it, None for the champion, or a version that was found.
Address = str | Version | None


@dataclass(frozen=True)
class Located:
    """The files of a model, and the address by which the same model is found again."""

    directory: Path
    address: str | Version

    @property
    def version(self) -> str:
        """The version it has; empty if it is not registered."""
        return self.address.version if isinstance(self.address, Version) else ""

    @property
    def digest(self) -> str:
        """That of its files; as it was registered, if it was."""
        known = self.address.tags.get(DIGEST) if isinstance(self.address, Version) else None
        return known or files_digest(self.directory)

    @property
    def uri(self) -> str:
        """Its address, as people write it."""
        return self.address.uri if isinstance(self.address, Version) else self.address

    def name(self, model: str) -> str:
        """Return the registered name, or for a model in a directory what its card calls it."""
        return self.address.name if isinstance(self.address, Version) else model


@contextmanager
def downloaded(uri: str) -> Iterator[Path]:
    """Give a directory with what MLflow keeps at `uri` for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as copy:
        yield Path(mlflow().artifacts.download_artifacts(artifact_uri=uri, dst_path=copy))


def files_digest(directory: Path) -> str:
    """Return the SHA-256 of the files in `directory` that reading a model may open, and of their names."""
    digest = hashlib.sha256()
    for path in sorted(one for one in directory.rglob("*") if one.suffix in _READ and one.is_file()):
        own = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(directory).as_posix()}\0{own}\n".encode())
    return digest.hexdigest()


@cache
def project_params(section: type[FamilyType]) -> Params[FamilyType]:
    """Return what the project's params.yaml says of one family; InputError if it is wrong."""
    return load(section, project_root() / "params.yaml")


def version_of(name: str, alias: str) -> Version | None:
    """Return the version of `name` that has `alias`, or None; InputError if the registry does not answer."""
    return registered(f"models:/{name}@{alias}")


def follows(uri: str | None) -> bool:
    """Tell whether an address is an alias, which may move."""
    found = _MODEL_URI.fullmatch(uri) if uri is not None and not Path(uri).is_dir() else None
    return uri is None or (found is not None and found["alias"] is not None)


def found(name: Callable[[], str], uri: Address) -> str | Version:
    """Return the version that an address of the registry means now, or the directory that it is.

    `uri` is ``models:/NAME@ALIAS``, ``models:/NAME/VERSION``, a directory, None for the champion of
    ``name()``, or a version, which is returned. Raises InputError if there is no such model, or the registry
    does not answer.
    """
    if isinstance(uri, Version) or (uri is not None and Path(uri).is_dir()):
        return uri
    version = registered(uri or f"models:/{name()}@{CHAMPION}")
    if version is None:
        raise InputError(_lacking(name, uri))
    return version


@contextmanager
def located(name: Callable[[], str], uri: Address) -> Iterator[Located]:
    """Yield the files of a model; parameters and errors as of `found`."""
    address = found(name, uri)
    if isinstance(address, str):
        yield Located(Path(address), address)
        return
    if not address.present:
        gone = f"the files of {address.uri} are gone; make another version with: dvc repro"
        raise InputError(gone, file=address.directory)
    with address.files() as directory:
        yield Located(directory, address)


def _lacking(name: Callable[[], str], uri: str | None) -> str:
    store = local_store()
    place = f"{_shown()}{', which is not there' if store and not store.path.is_file() else ''}"
    if uri is None:
        return f'no champion of "{name()}" in {place}; make one with: dvc repro'
    return f"no model {uri} in {place}"


def _shown() -> str:
    """Return where the registry is, without the password that its address may hold."""
    uri = tracking_uri()
    user, at, _ = urlparse(uri).netloc.rpartition("@")
    return uri.replace(user + at, "", 1)


def registered(uri: str) -> Version | None:
    """Return the version that ``models:/...`` names, or None; InputError if the registry does not answer."""
    if _MODEL_URI.fullmatch(uri) is None:
        told = f"{uri!r} is no model; expected models:/NAME@ALIAS, models:/NAME/VERSION or a directory"
        raise InputError(told)
    store = local_store()
    found = _asked(uri) if store is None else store.answer(uri, _asked)
    return None if found is None else Version(**found)


def refresh() -> None:
    """Ask again what was asked of a local store that has changed, so that the next process need not."""
    store = local_store()
    if store is not None:
        store.refresh(_asked)


def _asked(uri: str) -> dict[str, Any] | None:

    name, alias, number = _MODEL_URI.fullmatch(uri).groups()  # type: ignore[union-attr] # its callers checked
    flow, local = mlflow(), local_store()
    # a file that went while MLflow was imported, MLflow would make anew
    if local is not None and not local.path.is_file():
        return None
    try:
        store = client()
        found = (
            store.get_model_version_by_alias(name, alias) if alias else store.get_model_version(name, number)
        )
        location = store.get_model_version_download_uri(name, found.version)
    except flow.exceptions.MlflowException as exc:
        if exc.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise InputError(f"MLflow at {_shown()} does not answer as expected ({exc})") from exc
    return {"name": name, "version": str(found.version), "tags": dict(found.tags), "location": location}
