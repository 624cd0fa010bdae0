"""Who is champion: the registry of MLflow, read without importing MLflow where that is possible."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlparse
from urllib.request import urlopen

from data.errors import InputError

if TYPE_CHECKING:
    from training.ready import ReadyModel

CHAMPION = "champion"
CHALLENGER = "challenger"
#: Seconds that a server gets to name the champion.
TIMEOUT = 10
_MODEL_URI = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+))")


@dataclass(frozen=True)
class Version:
    """A registered version of a model.

    Attributes
    ----------
    name, version : str
    tags : dict of str to str
    directory : Path or None
        Where its files are; None if a server has them.
    """

    name: str
    version: str
    tags: dict[str, str]
    directory: Path | None

    @property
    def uri(self) -> str:
        """Its address in MLflow."""
        return f"models:/{self.name}/{self.version}"


class Served(NamedTuple):
    """A model to answer with, the version it has, and its address."""

    model: ReadyModel
    version: str
    uri: str


def tracking_uri() -> str:
    """Return where MLflow keeps its runs and models: MLFLOW_TRACKING_URI, or mlflow.db in the project."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{project_root() / 'mlflow.db'}"


def project_root() -> Path:
    """Return the checkout that this file belongs to, or else the working directory."""
    checkout = Path(__file__).resolve().parents[1]
    return checkout if (checkout / "params.yaml").is_file() else Path.cwd()


def version_of(name: str, alias: str) -> Version | None:
    """Return the version of `name` that bears `alias`, or None.

    Raises
    ------
    InputError
        If the registry does not answer.
    """
    uri = tracking_uri()
    if uri.startswith("sqlite:///"):
        where = "version = (select version from registered_model_aliases where name = ? and alias = ?)"
        return _in_file(uri, name, where, (name, alias))
    if uri.startswith(("http://", "https://")):
        return _on_server(uri, name, alias)
    return _by_client(name, alias)


class Located(NamedTuple):
    """The files of a model, the version it has, and its address."""

    directory: Path
    version: str
    uri: str


def load_champion(name: str) -> Served:
    """Return the champion of `name`.

    Raises
    ------
    InputError
        If there is none, or its files are gone.
    """
    champion = _champion(name)
    return Served(read_model(champion), champion.version, champion.uri)


def load_model(uri: str) -> Served:
    """Return the model at ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``, or in a directory.

    Raises
    ------
    InputError
        If there is no such model.
    """
    if Path(uri).is_dir():
        from training.ready import ReadyModel

        return Served(ReadyModel.read(Path(uri)), "", uri)
    found = _addressed(uri)
    return Served(read_model(found), found.version, found.uri)


@contextmanager
def located(name: str, uri: str | None) -> Iterator[Located]:
    """Give the files of a model, for as long as the block lasts.

    Parameters
    ----------
    name : str
        Its champion, where `uri` is None.
    uri : str or None
        As `load_model` takes it.

    Raises
    ------
    InputError
        If there is no such model.
    """
    if uri is not None and Path(uri).is_dir():
        yield Located(Path(uri), "", uri)
        return
    found = _champion(name) if uri is None else _addressed(uri)
    with tempfile.TemporaryDirectory() as temporary:
        yield Located(download(found, Path(temporary)), found.version, found.uri)


def _champion(name: str) -> Version:
    champion = version_of(name, CHAMPION)
    if champion is None or _lost(champion):
        raise InputError(f'no champion of "{name}" in {tracking_uri()}; make one with: dvc repro')
    return champion


def _addressed(uri: str) -> Version:
    address = _MODEL_URI.fullmatch(uri)
    if address is None:
        raise InputError(
            f"{uri!r} is no model; expected models:/NAME@ALIAS, models:/NAME/VERSION or a directory"
        )
    name, alias, number = address["name"], address["alias"], address["version"]
    found = version_of(name, alias) if alias else _numbered(name, number)
    if found is None or _lost(found):
        raise InputError(f"no model {uri} in {tracking_uri()}")
    return found


def read_model(version: Version) -> ReadyModel:
    """Read the model of `version`, from its directory or from the server."""
    from training.ready import ReadyModel

    if version.directory is not None:
        return ReadyModel.read(version.directory)
    with tempfile.TemporaryDirectory() as temporary:
        return ReadyModel.read(download(version, Path(temporary)))


def download(version: Version, directory: Path) -> Path:
    """Return a directory with the files of `version`: its own, or a copy in `directory`."""
    if version.directory is not None:
        return version.directory
    from training.tracking import mlflow

    return Path(mlflow().artifacts.download_artifacts(artifact_uri=version.uri, dst_path=str(directory)))


def _lost(version: Version) -> bool:
    return version.directory is not None and not (version.directory / "model.skops").is_file()


def present(version: Version | None) -> bool:
    """Whether there is such a version, and its files with it."""
    return version is not None and not _lost(version)


def _numbered(name: str, number: str) -> Version | None:
    uri = tracking_uri()
    if uri.startswith("sqlite:///"):
        return _in_file(uri, name, "version = ?", (int(number),))
    from training.tracking import client

    return _of_client(client().get_model_version(name, number))


def _in_file(uri: str, name: str, where: str, values: tuple[Any, ...]) -> Version | None:
    path = Path(uri.removeprefix("sqlite:///")).resolve()
    if not path.is_file():
        return None
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
        try:
            return _row(store, name, where, values)
        except sqlite3.DatabaseError as exc:
            if "no such table" in str(exc):
                return None
            raise InputError(f"is not a store of MLflow ({exc})", file=path) from exc


def _row(store: sqlite3.Connection, name: str, where: str, values: tuple[Any, ...]) -> Version | None:
    # `where` is one of two constants of this module
    query = (
        f"select version, coalesce(storage_location, source) from model_versions where name = ? and {where}"  # noqa: S608
    )
    row = store.execute(query, (name, *values)).fetchone()
    if row is None:
        return None
    number, location = row
    tags = store.execute(
        "select key, value from model_version_tags where name = ? and version = ?", (name, number)
    )
    return Version(name, str(number), dict(tags.fetchall()), _directory(location))


def _directory(location: str) -> Path | None:
    if location.startswith("file:"):
        return Path(unquote(urlparse(location).path))
    return Path(location) if location.startswith("/") else None


def _on_server(uri: str, name: str, alias: str) -> Version | None:
    query = urlencode({"name": name, "alias": alias})
    address = f"{uri.rstrip('/')}/api/2.0/mlflow/registered-models/alias?{query}"
    try:
        with urlopen(address, timeout=TIMEOUT) as answer:  # noqa: S310 - http(s) only, checked by version_of
            found = json.load(answer)["model_version"]
    except HTTPError as exc:
        # 404: nobody bears the alias (400 in older servers); others, such as 401, are for MLflow to handle
        return None if exc.code in (400, 404) else _by_client(name, alias)
    except (URLError, TimeoutError, ValueError, KeyError) as exc:
        raise InputError(f"MLflow at {uri} does not answer as expected ({exc})") from exc
    tags = {tag["key"]: tag["value"] for tag in found.get("tags", [])}
    return Version(name, str(found["version"]), tags, None)


def _by_client(name: str, alias: str) -> Version | None:
    from training.tracking import client, mlflow

    try:
        return _of_client(client().get_model_version_by_alias(name, alias))
    except mlflow().exceptions.MlflowException as exc:
        if exc.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise InputError(f"MLflow at {tracking_uri()} does not answer as expected ({exc})") from exc


def _of_client(found: Any) -> Version:
    return Version(found.name, str(found.version), dict(found.tags), None)
