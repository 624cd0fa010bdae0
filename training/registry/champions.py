"""Which versions of models are registered in MLflow, and where their files lie."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from zipfile import BadZipFile

from data.errors import InputError
from data.params import FamilyType, Params, load
from training.registry.store_file import local_store, project_root, tracking_uri

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

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What two versions have in common that are the same files; other tags may have come meanwhile."""
        return self.name, self.version, self.location, self.tags.get(DIGEST)

    @contextmanager
    def files(self) -> Iterator[Path]:
        """Give a directory with its files for as long as the block lasts: its own, or a copy.

        Raises
        ------
        InputError
            If they are not those that were registered.
        """
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
    """The files of a model.

    Attributes
    ----------
    directory : Path
    address : str or Version
        By which the same model is found again.
    """

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
    from training.registry.tracking import mlflow

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
    """Return the version of `name` that bears `alias`, or None.

    Raises
    ------
    InputError
        If the registry does not answer.
    """
    return registered(f"models:/{name}@{alias}")


def follows(uri: str | None) -> bool:
    """Tell whether an address is an alias, which may move."""
    found = _MODEL_URI.fullmatch(uri) if uri is not None and not Path(uri).is_dir() else None
    return uri is None or (found is not None and found["alias"] is not None)


def found(name: Callable[[], str], uri: Address) -> str | Version:
    """Return the version that an address of the registry means now, or the directory that it is.

    Parameters
    ----------
    name : callable
        Returns the registered name whose champion is meant where `uri` is None.
    uri : str or Version or None
        ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``, or a directory; a version that was found before is
        not looked for again.

    Raises
    ------
    InputError
        If there is no such version, or the registry does not answer.
    """
    if isinstance(uri, Version) or (uri is not None and Path(uri).is_dir()):
        return uri
    version = registered(uri or f"models:/{name()}@{CHAMPION}")
    if version is None:
        raise InputError(_lacking(name, uri))
    return version


@contextmanager
def located(name: Callable[[], str], uri: Address) -> Iterator[Located]:
    """Give the files of a model, for as long as the block lasts; parameters as of `found`.

    Raises
    ------
    InputError
        If there is no such model, or its files are not those that were registered.
    """
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
    """Return the version that ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION`` means now; None if none.

    Raises
    ------
    InputError
        If the registry does not answer, or `uri` is nothing of the kind.
    """
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
    from training.registry.tracking import client, mlflow

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
