"""Where the finished trials of a search are kept, so that it goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from data.errors import InputError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

Direction: TypeAlias = Literal["maximize", "minimize"]
#: The attribute of a trial that says which of the search it is.
NUMBER = "number"


@dataclass(frozen=True)
class TrialLog:
    """The trials of one search.

    Attributes
    ----------
    file : Path
        Its last four parts are the study's name in a database.
    storage : str or None
        The address of the database; without one they are kept in the file.
    """

    file: Path
    storage: str | None = None

    @property
    def name(self) -> str:
        """What the search is called in a database, which others may share."""
        return "/".join(self.file.with_suffix("").parts[-4:])

    @contextmanager
    def opened(self, direction: Direction) -> Iterator[KeptTrials]:
        """Open it, or begin it; a file that was cut off in the middle of a line is begun anew.

        Raises
        ------
        InputError
            If the database does not answer.
        """
        if self.storage is not None:
            with _database(self.storage) as storage:
                yield KeptTrials(_study(storage, self.name, direction))
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            study = _study(_file(self.file), "search", direction)
        except (ValueError, KeyError):
            self.file.unlink()
            study = _study(_file(self.file), "search", direction)
        yield KeptTrials(study)


@dataclass(frozen=True)
class KeptTrials:
    """An open log of trials."""

    study: Study

    def finished(self) -> list[FrozenTrial]:
        """Return the trials from the first one to the last before one is missing.

        One stands there twice if two processes ran the search, one of which was believed to be dead.
        """
        from optuna.trial import TrialState

        ended = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
        found: dict[int, FrozenTrial] = {}
        for trial in self.study.get_trials(states=ended):
            found.setdefault(trial.user_attrs[NUMBER], trial)
        return [found[number] for number in takewhile(found.__contains__, count())]

    def add(self, trial: FrozenTrial) -> None:
        """Keep a finished trial, which has its `NUMBER`."""
        self.study.add_trial(trial)


def begin(storage: str | None) -> None:
    """Make the tables of a database, if there is one, before several processes would.

    Raises
    ------
    InputError
        If it does not answer, or is none.
    """
    if storage is not None:
        with _database(storage):
            pass


def _study(storage: BaseStorage, name: str, direction: Direction) -> Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(storage=storage, study_name=name, load_if_exists=True, direction=direction)


def _file(path: Path) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(path)))


@contextmanager
def _database(storage: str) -> Iterator[Any]:
    """Connect; what goes wrong is told in one line, which quotes no password."""
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage
    from sqlalchemy import NullPool, make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        url = make_url(storage)
    except ArgumentError as exc:
        raise InputError("the address of the trials is none; expected postgresql://HOST/DATABASE") from exc
    place = url.set(query={}).render_as_string()
    driver = "postgresql+psycopg" if url.drivername == "postgresql" else url.drivername
    try:
        whole = url.set(drivername=driver).render_as_string(hide_password=False)
        kept = RDBStorage(whole, engine_kwargs={"poolclass": NullPool})
        try:
            yield kept
        finally:
            kept.remove_session()
    except (SQLAlchemyError, StorageInternalError, ImportError) as exc:
        why = str(getattr(exc, "orig", None) or exc).splitlines()[0]
        raise InputError(f"trials cannot be kept there ({why})", place=place) from exc
