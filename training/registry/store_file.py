"""Where MLflow keeps its runs and models, and what it said of its file, remembered until the file changes.

To ask MLflow it has to be imported, which takes longer than to judge; a file's size and time say soon enough
whether its answers still hold.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from data.errors import InputError
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
        """Make the file if there is none, one that appends to a log; `fill` makes MLflow's tables in it.

        MLflow commits some thousand times, and would wait several times for the disk with each. A file with
        half of the tables would be of no use ever after, so it gets its name when it is whole.
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
