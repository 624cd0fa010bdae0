"""Which versions of models are registered in MLflow, and where their files lie."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse
from zipfile import BadZipFile

from data.errors import InputError
from data.params import FamilyType, Params, load
from training.registry.store_file import local_store, project_root, tracking_uri

CHAMPION = "champion"
CHALLENGER = "challenger"
#: What reading a model raises that this code did not write.
FOREIGN = (ImportError, AttributeError, LookupError, TypeError, ValueError, BadZipFile)
_MODEL_URI = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+))")


@dataclass(frozen=True)
class Version:
    """A registered version of a model.

    Attributes
    ----------
    name, version : str
    tags : dict of str to str
    location : str
        Where its files are, as MLflow says it.
    """

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

    @contextmanager
    def files(self) -> Iterator[Path]:
        """Give a directory with its files for as long as the block lasts: its own, or a copy."""
        if self.directory is not None:
            yield self.directory
            return
        from training.registry.tracking import mlflow

        with tempfile.TemporaryDirectory() as copy:
            yield Path(mlflow().artifacts.download_artifacts(artifact_uri=self.uri, dst_path=copy))


class Located(NamedTuple):
    """The files of a model, the version it has, and its address."""

    directory: Path
    version: str
    uri: str

    def name(self, model: str) -> str:
        """Return the registered name, or for a model in a directory what its card calls it."""
        address = _MODEL_URI.fullmatch(self.uri)
        return address["name"] if address else model


@cache
def project_params(section: type[FamilyType]) -> Params[FamilyType]:
    """Return what the project's params.yaml says of one family; InputError if it is wrong."""
    return load(section, project_root() / "params.yaml")


def version_of(name: str, alias: str) -> Version | None:
    """Return the version of `name` that bears `alias`, or None.

    Raises
    ------
    InputError
        If the registry does not answer.
    """
    return _known(f"models:/{name}@{alias}")


@contextmanager
def located(name: Callable[[], str], uri: str | None) -> Iterator[Located]:
    """Give the files of a model, for as long as the block lasts.

    Parameters
    ----------
    name : callable
        Returns the registered name whose champion is meant where `uri` is None.
    uri : str or None
        ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``, or a directory.

    Raises
    ------
    InputError
        If there is no such model.
    """
    if uri is not None and Path(uri).is_dir():
        yield Located(Path(uri), "", uri)
        return
    found = _found(name, uri)
    with found.files() as directory:
        yield Located(directory, found.version, found.uri)


def _found(name: Callable[[], str], uri: str | None) -> Version:
    if uri is None:
        uri = f"models:/{(model := name())}@{CHAMPION}"
        lacking = f'no champion of "{model}" in {tracking_uri()}; make one with: dvc repro'
    elif _MODEL_URI.fullmatch(uri):
        lacking = f"no model {uri} in {tracking_uri()}"
    else:
        raise InputError(
            f"{uri!r} is no model; expected models:/NAME@ALIAS, models:/NAME/VERSION or a directory"
        )
    found = _known(uri)
    if found is None or not found.present:
        raise InputError(lacking)
    return found


def _known(uri: str) -> Version | None:
    store = local_store()
    found = _asked(uri) if store is None else store.answer(uri, _asked)
    return None if found is None else Version(**found)


def refresh() -> None:
    """Ask again what was asked of a local store that has changed, so that the next process need not."""
    store = local_store()
    if store is not None:
        store.refresh(_asked)


def _asked(uri: str) -> dict[str, Any] | None:
    from training.registry.tracking import client, mlflow

    name, alias, number = _MODEL_URI.fullmatch(uri).groups()  # type: ignore[union-attr] # its callers checked
    try:
        store = client()
        found = (
            store.get_model_version_by_alias(name, alias) if alias else store.get_model_version(name, number)
        )
        location = store.get_model_version_download_uri(name, found.version)
    except mlflow().exceptions.MlflowException as exc:
        if exc.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise InputError(f"MLflow at {tracking_uri()} does not answer as expected ({exc})") from exc
    return {
        "name": name, "version": str(found.version), "tags": dict(found.tags), "location": location
    }  # fmt: skip
