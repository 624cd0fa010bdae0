"""Where MLflow keeps its runs and models, and what its file says of registered models.

To ask MLflow it has to be imported, which takes longer than to judge; its tables are read as soon as they are
opened. Tables of another form than the version of MLflow that is locked writes are left to MLflow.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from data.errors import InputError

#: The seconds for which a store is waited for that is being written.
_PATIENCE = 2
_VERSION = """
    SELECT version, coalesce(nullif(storage_location, ''), source) FROM model_versions
    WHERE workspace = 'default' AND current_stage <> 'Deleted_Internal' AND name = :name
    AND version = CASE WHEN :alias IS NULL THEN :version ELSE (
        SELECT version FROM registered_model_aliases
        WHERE workspace = 'default' AND name = :name AND alias = :alias
    ) END
"""
_TAGS = """
    SELECT key, value FROM model_version_tags
    WHERE workspace = 'default' AND name = :name AND version = :version
"""


class UnknownTablesError(Exception):
    """The tables are not of the form that this code knows: MLflow has to be asked."""


@dataclass(frozen=True)
class Row:
    """A registered version as the file has it: its number, its tags, and where its files are."""

    version: str
    tags: dict[str, str]
    location: str


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

    def begin(self) -> None:
        """Make the file if there is none, one that appends to a log.

        MLflow commits some thousand times, and would wait several times for the disk with each.
        """
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path)) as file:
                file.execute("PRAGMA journal_mode=WAL")

    def version(self, name: str, alias: str | None, number: str | None) -> Row | None:
        """Return the version of a model that has an alias, or else a number; None if there is none.

        Raises
        ------
        UnknownTablesError
            If only MLflow can tell.
        InputError
            If the file cannot be read, or is none of SQLite.
        """
        if not self.path.is_file():
            return None
        try:
            return self._version(name, alias, number)
        except sqlite3.DatabaseError as exc:
            if exc.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                raise UnknownTablesError(str(exc)) from exc
            raise InputError(f"is not a store of MLflow that can be read ({exc})", file=self.path) from exc

    def _version(self, name: str, alias: str | None, number: str | None) -> Row | None:
        # opened for reading, a file that is moved away meanwhile is not made anew
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", _PATIENCE, uri=True)) as file:
            asked = {"name": name, "alias": alias, "version": number}
            found = file.execute(_VERSION, asked).fetchone()
            if found is None:
                return None
            version, location = found
            tags = file.execute(_TAGS, {"name": name, "version": version})
            return Row(str(version), dict(tags.fetchall()), location)
