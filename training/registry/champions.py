"""Registered versions of models in MLflow, and the location of their files."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlparse
from zipfile import BadZipFile

from data.errors import InputError
from data.families import FAMILIES
from data.params import FamilyType, Params, load, validate_params
from data.stage import error_summary, missing_package
from data.tables.files import PART, yaml_content


def tracking_uri() -> str:
    """Return the address of MLflow's store: MLFLOW_TRACKING_URI, else that of an SQLite file.

    The file is mlflow.db in `project_root`, by its absolute path; it is not created. An empty variable counts
    as unset.
    """
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{project_root() / 'mlflow.db'}"


def project_root() -> Path:
    """Return the checkout that contains this file if it has a params.yaml, else the working directory."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "params.yaml").is_file() else Path.cwd()


#: The champions and the files of new projects inside an installed wheel; a checkout has no such folder.
SHIPPED = Path(__file__).resolve().parents[1] / "shipped"


def template_root() -> Path:
    """Return the folder with the files of a new project: in the wheel, else checkout or working directory."""
    return SHIPPED / "project" if SHIPPED.is_dir() else project_root()


def local_store() -> Path | None:
    """Return the path of MLflow's SQLite file, which may not exist; None if it uses another store."""
    uri = tracking_uri()
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


#: The tag of a champion inside the wheel with the package that reading it needs.
PACKAGE = "package"
#: The tag of a model's run, and of its version, with its role in the registry.
ROLE_TAG = "role"
#: The role of a model before any decision.
CANDIDATE = "candidate"
#: Environment variables that MLflow reads once, when it is first imported.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # report an unreachable server after seconds, not after minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


def import_mlflow() -> Any:
    """Return the module ``mlflow``, set to the store at `tracking_uri`, without telemetry.

    Sets environment variables against telemetry, progress bars, printed addresses and many retries, unless
    they are set already, and hides log messages below errors. ImportError if MLflow is not installed.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    mlflow.set_tracking_uri(tracking_uri())
    mlflow.set_registry_uri(tracking_uri())
    return mlflow


def client() -> Any:
    """Return a new MLflow client for the store at `tracking_uri`; a missing SQLite file is created.

    So is its directory. The store is MLFLOW_TRACKING_URI, else mlflow.db of the project. ImportError if
    MLflow is not installed.
    """
    flow, store = import_mlflow(), local_store()
    if store is not None and not store.exists():
        import sqlite3

        from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        store.parent.mkdir(parents=True, exist_ok=True)
        # the file gets its name when it is complete: one with half of the tables would be useless
        with TemporaryDirectory(PART, f".{store.name}.", store.parent) as scratch:
            begun = Path(scratch) / store.name
            # MLflow commits some thousand times, and would wait for the disk each time without this log
            with closing(sqlite3.connect(begun)) as file:
                file.execute("PRAGMA journal_mode=WAL")
            tables: Any = SqlAlchemyStore
            tables(f"sqlite:///{begun}", DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH).engine.dispose()
            # another process may have created it
            with suppress(FileExistsError):
                store.hardlink_to(begun)
    return flow.MlflowClient()


@dataclass(frozen=True)
class Tracked:
    """A model in MLflow: its run, its address, and its id (None if its files belong to the run)."""

    run_id: str
    model_uri: str
    model_id: str | None = None


def add_note(store: Any, run_id: str, paragraph: str) -> None:
    """Add a paragraph at the end of the description of a run; `store` is an MLflow client."""
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    before = store.get_run(run_id).data.tags.get(MLFLOW_RUN_NOTE)
    store.set_tag(run_id, MLFLOW_RUN_NOTE, f"{before}\n\n{paragraph}" if before else paragraph)


CHAMPION = "champion"
CHALLENGER = "challenger"
#: The tag of a version with the digest of its files; versions without it are not checked.
DIGEST = "files_digest"
#: Suffixes of the files that reading a model may open.
_READ = (".json", ".npz", ".parquet", ".skops")
#: Exceptions that reading a model from other code raises.
FOREIGN = (ImportError, AttributeError, LookupError, TypeError, ValueError, BadZipFile)
#: Query for the version of an alias or number, and its files, in the tables of MLflow.
_VERSION = """
SELECT version, coalesce(nullif(storage_location, ''), source) FROM model_versions
WHERE name = :name AND current_stage != 'Deleted_Internal' AND version = coalesce(
    :number, (SELECT version FROM registered_model_aliases WHERE name = :name AND alias = :alias))
"""
_TAGS = "SELECT key, value FROM model_version_tags WHERE name = :name AND version = :version"
_MODEL_URI = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+(?:\.[\w.+]+)?))")


@dataclass(frozen=True)
class Version:
    """A registered version of a model; `location` is the address of its files in MLflow.

    For a model in a directory, `location` is the directory, and the other fields are empty.
    """

    name: str
    version: str
    tags: dict[str, str]
    location: str

    @property
    def uri(self) -> str:
        """Its address in MLflow, ``models:/NAME/VERSION``, or its directory."""
        return f"models:/{self.name}/{self.version}" if self.version else self.location

    @property
    def directory(self) -> Path | None:
        """The directory of its files; None if they are on a server."""
        if self.version and self.location.startswith("file:"):
            return Path(unquote(urlparse(self.location).path))
        return Path(self.location) if not self.version or self.location.startswith("/") else None

    @property
    def has_files(self) -> bool:
        """Whether its directory has a ``model.skops``; assumed for files on a server."""
        return self.directory is None or (self.directory / "model.skops").is_file()

    @property
    def identity_key(self) -> tuple[str | None, ...]:
        """A key that two versions share if their files are equal, whatever other tags they have."""
        return self.name, self.version, self.location, self.tags.get(DIGEST)

    @contextmanager
    def open_files(self) -> Iterator[Path]:
        """Yield the directory of its files, or a temporary copy; InputError if they have changed."""
        files = download_files(self.uri) if self.directory is None else nullcontext(self.directory)
        with files as directory:
            if DIGEST in self.tags and self.tags[DIGEST] != files_digest(directory):
                raise InputError(f"files of {self.uri} have changed since it was registered", file=directory)
            yield directory


#: A model: its address as text, None for the champion, or a resolved version.
Address = str | Version | None


@contextmanager
def download_files(uri: str) -> Iterator[Path]:
    """Yield a temporary directory with the files at `uri` in MLflow; InputError if that fails."""
    flow = import_mlflow()
    with tempfile.TemporaryDirectory() as copy:
        try:
            path = Path(flow.artifacts.download_artifacts(artifact_uri=uri, dst_path=copy))
        except (OSError, flow.exceptions.MlflowException) as exc:
            raise InputError(f"its files cannot be downloaded ({error_summary(exc)})", file=uri) from exc
        yield path


def files_digest(directory: Path) -> str:
    """Return the SHA-256 of names and contents of files that reading a model may open, with subfolders."""
    digest = hashlib.sha256()
    for path in sorted(file for file in directory.rglob("*") if file.suffix in _READ and file.is_file()):
        file_digest = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(directory).as_posix()}\0{file_digest}\n".encode())
    return digest.hexdigest()


def project_params(section: type[FamilyType]) -> Params[FamilyType]:
    """Return the shared parameters and one family's section (a class) of the project's params.yaml.

    They are cached until the process ends. Without that file, or if it has no section of any family, the
    parameters are those of new projects. InputError as in `validate_params`.
    """
    return _cached_params(section)


@cache
def _cached_params(section: type[Any]) -> Any:
    path = project_root() / "params.yaml"
    content = yaml_content(path) if path.is_file() else None
    # the file of another program has none of the sections
    if set(FAMILIES).isdisjoint(content or ()):
        return load(section, template_root() / path.name)
    return validate_params(section, content, path)


def version_of(name: str, alias: str) -> Version | None:
    """Return the registered version of model `name` with this alias, None if missing; see `find_version`."""
    return find_version(f"models:/{name}@{alias}")


def follows_alias(uri: str | None) -> bool:
    """Return whether an address may resolve to another version later: an alias, or None, the champion."""
    match = _MODEL_URI.fullmatch(uri) if uri is not None and not Path(uri).is_dir() else None
    return uri is None or (match is not None and match["alias"] is not None)


def resolve_address(name: Callable[[], str], uri: Address) -> Version:
    """Return the version that an address resolves to; for a directory, one without name and number.

    `uri` is ``models:/NAME@ALIAS``, ``models:/NAME/VERSION``, a directory, None for the champion of
    ``name()``, or a `Version`, which is returned. Versions are looked up in the registry, then in the
    installed wheel. InputError if `uri` is none of these, the model does not exist, or the registry does not
    answer; ImportError as in `find_version`.
    """
    if isinstance(uri, Version):
        return uri
    if uri is not None and Path(uri).is_dir():
        return Version("", "", {}, uri)
    version = served_version(uri or f"models:/{name()}@{CHAMPION}")
    if version is None:
        store = local_store()
        place = f"{_shown_address()}{', which does not exist' if store and not store.is_file() else ''}"
        if uri is not None:
            raise InputError(f"no model {uri} in {place}")
        if shipped := _shipped_tags().get(name()):
            remedy = missing_package(ModuleNotFoundError(name=shipped[PACKAGE]))
            raise InputError(f'the champion of "{name()}" cannot be read: {remedy}')
        is_project = (project_root() / "dvc.yaml").is_file()
        command = "dvc repro" if is_project else "dvc repro in a clone of perfjudge"
        raise InputError(f'no champion of "{name()}" in {place}; make one with: {command}')
    return version


def served_version(uri: str) -> Version | None:
    """Return the version for ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``, None if it does not exist.

    It is the registered version; else the champion inside the installed wheel, if `uri` has the alias
    ``champion`` or the version number of the installed perfjudge. Errors are those of `find_version`.
    """
    if (registered := find_version(uri)) is not None:
        return registered
    by_address = {f"models:/{version.name}@{CHAMPION}": version for version in shipped_champions()}
    return (by_address | {version.uri: version for version in shipped_champions()}).get(uri)


@cache
def shipped_champions() -> tuple[Version, ...]:
    """Return the wheel's champions whose package (tag ``package``) is installed; () in a checkout."""
    if not SHIPPED.is_dir():
        return ()
    from importlib.metadata import version

    return tuple(
        Version(name, version("perfjudge"), tags, str(SHIPPED / "models" / name))
        for name, tags in _shipped_tags().items()
        if find_spec(tags[PACKAGE]) is not None
    )


@cache
def _shipped_tags() -> dict[str, dict[str, str]]:
    index = SHIPPED / "champions.json"
    return json.loads(index.read_bytes()) if index.is_file() else {}


@contextmanager
def locate_model(name: Callable[[], str], uri: Address) -> Iterator[tuple[Path, Version]]:
    """Yield the directory of a model's files, and its version (see `resolve_address`), to read the model.

    Files on a server are copied, and the copy is deleted when the ``with`` block ends. InputError if the
    model or its files do not exist or cannot be downloaded, the files have changed since registration, or the
    registry does not answer; also in place of the exceptions `FOREIGN` of the block.
    """
    try:
        model = resolve_address(name, uri)
        if model.version and not model.has_files:
            gone = f"the files of {model.uri} are gone; make another version with: dvc repro"
            raise InputError(gone, file=model.directory)
        with model.open_files() as directory:
            yield directory, model
    except FOREIGN as exc:
        if remedy := missing_package(exc):
            raise InputError(f"{name()}: {remedy}") from exc
        place = uri.uri if isinstance(uri, Version) else uri
        raise InputError(f"holds no {name()} model that training wrote", file=place) from exc


def _shown_address() -> str:
    """Return the address of the registry without its password."""
    uri = tracking_uri()
    user, at, _ = urlparse(uri).netloc.rpartition("@")
    return uri.replace(user + at, "", 1)


def find_version(uri: str) -> Version | None:
    """Return the version that ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION`` names; None if missing.

    ``NAME@latest`` is the newest version. InputError if `uri` is another kind of address, or if the registry
    cannot be read. A missing SQLite file is not created. ``latest`` and a store that is not such a file need
    the package MLflow, else ImportError.
    """
    match = _MODEL_URI.fullmatch(uri)
    if match is None:
        expected = "models:/NAME@ALIAS, models:/NAME/VERSION or a directory"
        raise InputError(f"{uri!r} is not the address of a model; expected {expected}")
    name, alias, number = match.groups()
    store = local_store()
    if store is not None and not store.is_file():
        # a client would create the file
        return None
    # MLflow itself resolves the alias latest
    if store is None or alias == "latest":
        flow = import_mlflow()
        try:
            api = client()
            by_alias = api.get_model_version_by_alias
            entry = by_alias(name, alias) if alias else api.get_model_version(name, number)
            location = api.get_model_version_download_uri(name, entry.version)
        except flow.exceptions.MlflowException as exc:
            if exc.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise InputError(f"MLflow at {_shown_address()} does not answer as expected ({exc})") from exc
        return Version(name, str(entry.version), dict(entry.tags), location)
    # from MLflow's tables, because importing MLflow takes seconds
    import sqlite3

    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=rw", uri=True)) as file:
            row = file.execute(_VERSION, {"name": name, "alias": alias, "number": number}).fetchone()
            if row is None:
                return None
            version, location = row
            tags = dict(file.execute(_TAGS, {"name": name, "version": version}).fetchall())
    except sqlite3.OperationalError as exc:
        raise InputError(f"cannot be read ({exc})", file=store) from exc
    except sqlite3.DatabaseError as exc:
        raise InputError("is not a store of MLflow (no file of SQLite)", file=store) from exc
    return Version(name, str(version), tags, location)
