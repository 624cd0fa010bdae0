"""A search over trials that continues where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.stage import EXTRAS
from data.tables.documents import written
from data.tables.files import write_json, write_tables

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

Direction: TypeAlias = Literal["maximize", "minimize"]
#: Seconds after which the lock of a killed process on a file of trials is removed.
LOCK_SECONDS = 5
#: The attribute of a trial with its number in the search.
NUMBER = "number"


@dataclass(frozen=True)
class TrialLog:
    """The stored trials of one search."""

    file: Path  # its last four parts are the study's name in a database
    storage: str | None = None  # the address of the database; None: the trials are in `file`

    @property
    def study_name(self) -> str:
        """The name of the search in a database, which others may share."""
        return "/".join(self.file.with_suffix("").parts[-4:])

    @contextmanager
    def open_study(self, direction: Direction) -> Iterator[Study]:
        """Yield the stored study, created if missing; a damaged file is deleted and started again.

        InputError if the database does not answer.
        """
        if self.storage is not None:
            with _connect_storage(self.storage) as storage:
                yield _open_study(storage, self.study_name, direction)
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            storage = _journal(self.file)
        except (ValueError, KeyError):
            self.file.unlink()
            storage = _journal(self.file)
        yield _open_study(storage, "search", direction)


def _journal(file: Path) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    # the lock of a killed process expires only if its symbolic link has an absolute target
    path = str(file.resolve())
    return JournalStorage(JournalFileBackend(path, JournalFileSymlinkLock(path, LOCK_SECONDS)))


def _finished_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials before the first missing number; a trial may be stored twice, by two processes."""
    from optuna.trial import TrialState

    ended = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    by_number: dict[int, FrozenTrial] = {}
    for trial in study.get_trials(states=ended):
        by_number.setdefault(trial.user_attrs[NUMBER], trial)
    return [by_number[number] for number in takewhile(by_number.__contains__, count())]


def prepare_storage(storage: str | None) -> None:
    """Create the tables of the database `storage` that it lacks; do nothing if `storage` is None.

    InputError if the address is invalid, the database does not answer, or its tables belong to an
    incompatible version of Optuna; ImportError if psycopg is needed and not installed.
    """
    if storage is not None:
        with _connect_storage(storage):
            pass


def _open_study(storage: BaseStorage, name: str, direction: Direction) -> Study:
    import optuna

    return optuna.create_study(storage=storage, study_name=name, load_if_exists=True, direction=direction)


@contextmanager
def _connect_storage(storage: str) -> Iterator[Any]:
    """Connect; errors are reported in one line, without the password."""
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage
    from sqlalchemy import NullPool, make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        url = make_url(storage)
    except ArgumentError as exc:
        raise InputError("invalid address of the trials; expected postgresql://HOST/DATABASE") from exc
    place = url.set(query={}).render_as_string()
    driver = "postgresql+psycopg" if url.drivername == "postgresql" else url.drivername
    try:
        whole = url.set(drivername=driver).render_as_string(hide_password=False)
        try:
            database = RDBStorage(whole, engine_kwargs={"poolclass": NullPool})
        except RuntimeError as exc:
            # tables of another version of Optuna
            raise InputError(f"cannot store trials ({str(exc).splitlines()[0]})", place=place) from exc
        except ImportError as exc:
            driver_missing = exc.__cause__ or exc
            if getattr(driver_missing, "name", None) in EXTRAS:
                raise driver_missing from None
            raise InputError(f"cannot store trials ({driver_missing})", place=place) from exc
        try:
            yield database
        finally:
            database.remove_session()
    except (SQLAlchemyError, StorageInternalError) as exc:
        reason = str(getattr(exc, "orig", None) or exc).splitlines()[0]
        raise InputError(f"cannot store trials ({reason})", place=place) from exc


@dataclass(frozen=True)
class Tuned:
    """The parameters that a search chose."""

    params: dict[str, Any]  # in the model's search space
    score: float  # the best trial's value


T = TypeVar("T", bound=Tuned)


@dataclass(frozen=True)
class TrialRow:
    """One trial of a search, a row of trials.parquet."""

    part: str
    model: str
    trial: int
    state: str
    value: float | None  # None unless it is complete
    params: str  # as JSON
    #: Its value after each step, as a list in JSON; a pruned trial has no other value.
    reported: str = "[]"


@dataclass(frozen=True)
class SearchOutcome(Generic[T]):
    """The outcome of the search for a model in a part."""

    part: str
    model: str
    tuned: T
    trials: list[TrialRow]
    #: Shape (n_training_rows,) or None: The inner out-of-fold predictions of the training rows.
    out_of_fold: NDArray[np.float64] | None = field(default=None, compare=False)


def write_outcomes(directory: Path, results: Sequence[SearchOutcome[Any]]) -> None:
    """Write tuned.json, then trials.parquet to `directory`, and replace existing files.

    If no result has a trial, KeyError after the first file is written. tuned.json has the fields of the
    chosen parameters (``params``, ``score`` and others) by part and model; trials.parquet has a row per trial
    with the fields of `TrialRow`, sorted by part, model and number.
    """
    tuned: dict[str, dict[str, object]] = {}
    for result in results:
        tuned.setdefault(result.part, {})[result.model] = asdict(result.tuned)
    write_json(directory / "tuned.json", tuned)
    trials = pd.DataFrame([asdict(row) for result in results for row in result.trials])
    ordered = trials.sort_values(["part", "model", "trial"], ignore_index=True)
    write_tables(directory, {"trials": ordered})


def read_tuned(directory: Path, kind: type[T]) -> dict[str, dict[str, T]]:
    """Return the tuned parameters in `directory`/tuned.json, by part and model, as objects of class `kind`.

    A part is a set of training rows that was searched: "all", or the name of a fold. InputError if the file
    is missing, is not JSON or has other fields than `kind`.
    """
    path = directory / "tuned.json"
    try:
        return {
            part: {name: kind(**tuned) for name, tuned in models.items()}
            for part, models in written(path, "tune").items()
        }
    except (TypeError, AttributeError) as exc:
        raise InputError(f"is not a file that tune wrote ({exc})", file=path) from exc


def require_parts(directory: Path, tuned: dict[str, Any], parts: Iterable[str]) -> None:
    """Raise InputError, with advice to run tune, for the first of `parts` that is not a key of `tuned`.

    `tuned` is the content of tuned.json in `directory`, which is not read, only named in the message.
    """
    missing = [name for name in parts if name not in tuned]
    if missing:
        raise InputError(f"has no part {missing[0]!r}; run tune first", file=directory / "tuned.json")


def slowest_first(models: Iterable[str], slowest: Sequence[str]) -> list[str]:
    """Return `models` in the order of `slowest`, then the others as given; absent models are not added."""
    return sorted(models, key=lambda name: slowest.index(name) if name in slowest else len(slowest))


def require_known(models: Iterable[str], known_models: Iterable[str], place: str) -> None:
    """Raise InputError for the first name of `models` that is not one of `known_models`.

    `place` is the key of params.yaml that has `models`; it is only for the message.
    """
    unknown = [name for name in models if name not in known_models]
    if unknown:
        problem = f"models={unknown[0]!r} is not one of {', '.join(known_models)}"
        raise InputError(problem, file="params.yaml", place=place)


#: A trial goes on after an inner fold if its score there is in this best percentage of the trials before.
KEPT = 25.0


@dataclass(frozen=True)
class Search:
    """Settings of a search."""

    direction: Direction
    trials: int
    first: Sequence[Mapping[str, Any]]  # parameters that the first trials try
    sampler: Callable[[int], BaseSampler]  # returns the sampler for the trial of that number
    #: Store of finished trials, so that an interrupted search can continue; None: in memory.
    log: TrialLog | None = None

    def run(self, value: Callable[[Trial], float | None]) -> Study:
        """Return the completed study; `value` returns a trial's score, or None if it is pruned.

        `value` reports the score after each inner fold; the second trial may already be pruned.
        """
        import optuna
        from optuna.pruners import PercentilePruner
        from optuna.trial import TrialState

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # only finished trials are logged: every line of the log waits for the disk
        pruner = PercentilePruner(KEPT, n_startup_trials=1)
        study = optuna.create_study(direction=self.direction, pruner=pruner)
        with nullcontext() if self.log is None else self.log.open_study(self.direction) as log:
            done = [] if log is None else _finished_trials(log)
            study.add_trials(done)
            for params in self.first[len(done) :]:
                study.enqueue_trial(dict(params))
            for number in range(len(done), self.trials):
                study.sampler = self.sampler(number)
                trial = study.ask()
                score = value(trial)
                trial.set_user_attr(NUMBER, number)
                ended = study.tell(trial, score, TrialState.PRUNED if score is None else None)
                if log is not None:
                    log.add_trial(ended)
        return study


def tpe_sampler(seed: int, startup: int) -> BaseSampler:
    """Return Optuna's TPE sampler: `startup` random trials; each later one uses the results of all before."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup)
