"""Storage of trained impact models, and their predictions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from data.corun.tables import HOST_DTYPES, PAIR_DTYPES, SAMPLE_DTYPES, TASK_DTYPES, CorunTables
from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from data.tables.files import replacing
from data.tables.specs import Spec, Tables, as_number, with_dtypes
from features.corun.rates import MOST, OTHERS, Floats, Placed, Solo, corun_columns, corun_matrix
from training.corun.estimators import arrays as impact_arrays
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.fitting import FittedImpact
from training.corun.estimators.pressure import Named
from training.corun.online import OnlineModel, RatioSpread
from training.estimators.answering import model_answering, require_finite
from training.registry.stored import (
    CARD,
    MODEL,
    StoredCard,
    StoredModel,
    beside_model,
    load_model,
    require_width,
    store_model,
)


@dataclass(frozen=True)
class KnownTasks(Tables):
    """Solo runs (`tasks`) and descriptions of their machines (`hosts`), with the columns of `CorunTables`."""

    SPECS: ClassVar = {
        "tasks": Spec(TASK_DTYPES, other_dtype=as_number),
        "hosts": Spec(HOST_DTYPES, other_dtype=as_number),
    }

    tasks: pd.DataFrame
    hosts: pd.DataFrame

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read tasks.parquet and hosts.parquet of a model; InputError if a file or a column is missing."""
        files = {name: beside_model(directory, f"{name}.parquet") for name in cls.SPECS}
        return cls(**{name: cls.SPECS[name].read(path) for name, path in files.items()})

    def with_others(self, others: CorunTables) -> KnownTasks:
        """Return a copy with the solo runs of `others`, replacing those of the same task and machine."""
        theirs = pd.MultiIndex.from_frame(others.tasks[["machine", "task"]])
        ours = self.tasks[~pd.MultiIndex.from_frame(self.tasks[["machine", "task"]]).isin(theirs)]
        parts = KnownTasks(ours, self.hosts), KnownTasks(others.tasks, others.hosts)
        joined = KnownTasks.join_tables(parts)
        return replace(joined, hosts=joined.hosts.drop_duplicates("machine"))

    @cached_property
    def counted_events(self) -> tuple[str, ...]:
        """The names of the counted events, in the order of the columns."""
        return tuple(column for column in self.tasks.columns if column not in TASK_DTYPES)

    @cached_property
    def solo_medians(self) -> Solo:
        """Medians of solo times and event rates over repetitions, the input of feature vectors."""
        pairs, samples = with_dtypes(None, PAIR_DTYPES), with_dtypes(None, SAMPLE_DTYPES)
        return Solo.from_tables(CorunTables(self.tasks, pairs, samples, self.hosts))

    @cached_property
    def tasks_by_machine(self) -> dict[str, frozenset[str]]:
        """The names of the tasks with a solo run, by machine."""
        names = self.tasks.groupby("machine", sort=True)["task"].unique()
        return {str(machine): frozenset(tasks) for machine, tasks in names.items()}

    def solo_seconds(self, machine: str, task: str) -> float:
        """Return the median solo time in seconds; NaN if the task never ran alone on this machine."""
        return float(np.exp(self.solo_medians.log_seconds([machine], [task])[0]))

    def usual_features(self, machine: str, n_corunners: int, columns: tuple[str, ...]) -> Floats:
        """Return the medians of feature `columns` over a machine's tasks, each with copies of another task.

        Each task is paired with `n_corunners` copies of the next one by name. The result has shape
        (n_columns,), in the units of the columns. KeyError if the machine has no task.
        """
        key = machine, n_corunners, columns
        if key not in self._usual_cache:
            tasks = sorted(self.tasks_by_machine[machine])
            others = [(task,) * n_corunners for task in [*tasks[1:], tasks[0]]]
            rows = self.corun_features(Placed(tasks, others, [machine] * len(tasks)), columns)
            self._usual_cache[key] = pd.DataFrame(rows).median().to_numpy(np.float64)
        return self._usual_cache[key]

    @cached_property
    def _usual_cache(self) -> dict[tuple[str, int, tuple[str, ...]], Floats]:
        return {}

    def corun_features(self, placed: Placed, columns: tuple[str, ...]) -> Floats:
        """Return the features `columns` of co-runs, shape (n_rows, n_columns).

        A feature of an event that was not counted, or of a task that never ran alone, is NaN.
        """
        key = placed.max_corunners > 1, columns
        if key not in self._place_cache:
            made = corun_columns(self.solo_medians, several=key[0])
            place = {name: number for number, name in enumerate(made)}
            # with a single co-runner, its rate is the largest
            single = {name: f"{OTHERS}{name.removeprefix(MOST)}" for name in columns if name.startswith(MOST)}
            numbers = [place.get(name, place.get(single.get(name, ""), -1)) for name in columns]
            self._place_cache[key] = np.array(numbers, np.intp)
        number = self._place_cache[key]
        features = corun_matrix(self.solo_medians, placed).take(number, axis=1)
        features[:, number < 0] = np.nan
        return features

    @cached_property
    def _place_cache(self) -> dict[tuple[bool, tuple[str, ...]], NDArray[np.intp]]:
        return {}


CHANGES = "changes.npz"
_CHANGES = {"mean": ArraySpec("f", ("events",)), "covariance": ArraySpec("f", ("events", "events"))}


@dataclass(frozen=True)
class ImpactCard(StoredCard):
    """The card of an impact model.

    `features` are in the order of the model's input; `machines` and `tasks` are those of the training data,
    whose SHA-256 is `data_digest`. `half_widths` are of prediction intervals of log impact with the nominal
    coverage `confidence`: ``pairs`` for known tasks on a known machine, ``tasks`` for unknown tasks,
    ``machines`` for an unknown machine.
    """

    model: str
    features: tuple[str, ...]
    params: dict[str, Any]
    half_widths: Annotated[dict[str, FiniteFloat], Field(min_length=1)]
    machines: tuple[str, ...]
    tasks: tuple[str, ...]
    data_digest: str
    seed: int
    confidence: FiniteFloat

    def half_width(self, machine: str, tasks: list[str]) -> float:
        """Return the half width of the interval of log impact: the widest that applies to this co-run.

        ``pairs`` always, ``tasks`` if one of `tasks` (task and co-runners) is unknown, ``machines`` if
        `machine` is. A design that the training data did not allow has the widest of all; ``machines`` has
        twice that.
        """
        widest = max(self.half_widths.values())
        width = self.half_widths.get("pairs", widest)
        if not set(tasks) <= set(self.tasks):
            width = max(width, self.half_widths.get("tasks", widest))
        if machine not in self.machines:
            width = max(width, self.half_widths.get("machines", 2 * widest))
        return width


@dataclass(frozen=True)
class TrainedImpact(StoredModel[ImpactCard]):
    """A fitted impact model and its card."""

    CARD = ImpactCard

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json``, and ``model.npz`` for a `ContentionRegressor`."""
        stored = store_model(directory, self.model, self.card)
        if isinstance(self.model, ContentionRegressor):
            impact_arrays.write_impact_arrays(directory / impact_arrays.FILE, self.model, stored)

    @classmethod
    def read_quick(cls, directory: Path) -> TrainedImpact:
        """Read ``model.npz`` if it fits ``model.skops``, else as `read`; InputError if a file is damaged."""
        quick = impact_arrays.read_impact_arrays(directory / impact_arrays.FILE, directory / MODEL)
        if quick is None:
            return cls.read(directory)
        card = ImpactCard.read(directory)
        require_width(directory, card.features, len(quick.arrays_.fill))
        return cls(quick, card)

    def predict_impacts(self, x: Floats, named: Named) -> Floats:
        """Return impacts (co-run / solo time), shape (n_rows,), of features, (n_rows, n_features).

        Raises ModelError if the model fails or an impact is not finite.
        """
        with model_answering(self.card.model):
            impacts = FittedImpact(self.model, self.card.features).predict_matrix(x, named)
        require_finite(self.card.model, "impact", impacts)
        return impacts


@dataclass(frozen=True)
class OnlineCard(StoredCard):
    """The card of an online model.

    `model` is stage two, by its name in the catalogue; `coefficients`, shape (n_events, 4), are stage one,
    see `training.corun.online.OnlineModel`; `seconds` is the length of the samples that it was trained for.
    `half_widths` are, by seconds of samples, those of prediction intervals of log impact for unseen tasks,
    with the nominal coverage `confidence`; `blind_half_width` is that of intervals around the median impact,
    without any sample.
    """

    model: str
    events: tuple[str, ...]
    coefficients: tuple[tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat], ...]
    seconds: FiniteFloat
    half_widths: Annotated[dict[str, FiniteFloat], Field(min_length=1)]
    blind_half_width: FiniteFloat
    machines: tuple[str, ...]
    data_digest: str
    seed: int
    confidence: FiniteFloat

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(self.events):
            raise ValueError(f"{len(self.coefficients)} rows of coefficients for {len(self.events)} events")
        for seconds in self.half_widths:
            float(seconds)

    def half_width(self, machine: str | None, seconds: float, missing: float) -> float:
        """Return the half width of the interval of log impact after `seconds` of samples.

        It is that of the longest evaluated time not above `seconds`; `missing`, the share of events not
        counted, moves it towards `blind_half_width`. An unknown machine (not None) doubles it, as no design
        holds machines out.
        """
        by_length = {float(name): width for name, width in self.half_widths.items()}
        first = max((length for length in by_length if length <= seconds + 1e-9), default=min(by_length))
        last = max(self.seconds, first)
        # fewer seconds never make an interval narrower
        width = max(width for length, width in by_length.items() if first <= length <= last)
        width += missing * max(self.blind_half_width - width, 0.0)
        return width if machine is None or machine in self.machines else 2 * width


@dataclass(frozen=True)
class TrainedOnline:
    """A fitted online model and its card."""

    model: OnlineModel
    card: OnlineCard

    def write(self, directory: Path) -> None:
        """Write stage two as ``model.skops``, stage one in ``card.json``, its ratios as ``changes.npz``."""
        store_model(directory, self.model.second, self.card)
        with replacing(directory / CHANGES) as path:
            np.savez(path, **asdict(self.model.changes))

    @classmethod
    def read(cls, directory: Path) -> TrainedOnline:
        """Read the files of `write`; InputError if a file is missing, damaged or contradicts the card."""
        card, second = OnlineCard.read(directory), load_model(directory)
        path = beside_model(directory, CHANGES)
        ratio_moments = arrays.read_arrays(path, _CHANGES)
        if len(ratio_moments["mean"]) != len(card.events):
            message = f"{len(ratio_moments['mean'])} events; expected {len(card.events)} as in {CARD}"
            raise InputError(message, file=path, place='array "mean"')
        coefficients, spread = np.array(card.coefficients), RatioSpread(**ratio_moments)
        return cls(OnlineModel(card.events, coefficients, second, spread), card)
