"""Impact models fitted to rows of the table of features, and what they say of others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.files import digest_of
from features.corun.rates import KEYS, MOST, OTHERS, OWN
from training.corun.estimators.models import CATALOGUE, prepared
from training.corun.estimators.pressure import BESIDE, Named
from training.corun.estimators.smooth import sides_of
from training.estimators.catalogue import Params

Floats = NDArray[np.float64]
Words = NDArray[np.str_]
#: Features of solo times that plain models see beside the rates.
_TIMES = ("own_seconds", "others_seconds")
_MACHINE = ("machine_", "engine_")
#: Where the features of time begin: what comes before are rates.
_DERIVED = "own_seconds"
#: No impact beyond this is believed of a model that extrapolates.
_LARGEST = 1000.0


@dataclass(frozen=True)
class Ranges:
    """What classification predicts: ranges as wide as a share of a task's mean impact (seed 002, section 4).

    Attributes
    ----------
    share : float
        Of the mean impact of the task; the seed's is 0.03.
    means : dict of str to float
        By task, from training rows.
    overall : float
        The mean of all training rows, for a task that they lack.
    """

    share: float
    means: dict[str, float]
    overall: float

    @classmethod
    def of(cls, tasks: Words, impacts: Floats, share: float) -> Ranges:
        """Take the means from training rows."""
        names, owners = np.unique(tasks, return_inverse=True)
        means = np.bincount(owners, impacts) / np.bincount(owners)
        return cls(share, dict(zip(names.tolist(), means.tolist(), strict=True)), float(impacts.mean()))

    def widths(self, tasks: Words) -> Floats:
        """Return the width of each task's ranges, shape (n_rows,)."""
        return self.share * np.array([self.means.get(task, self.overall) for task in tasks.tolist()])

    def numbers(self, tasks: Words, impacts: Floats) -> NDArray[np.int64]:
        """Return the number of the range that holds each impact."""
        return np.floor(impacts / self.widths(tasks)).astype(np.int64)


@dataclass(frozen=True)
class RangeModel:
    """A classifier of ranges that answers with impacts.

    Attributes
    ----------
    classifier : Any
        Of the places in `classes`.
    classes : ndarray of int
        The ranges that training rows fell into, ascending.
    ranges : Ranges
    """

    classifier: Any
    classes: NDArray[np.int64]
    ranges: Ranges

    @classmethod
    def fitted(cls, classifier: Any, x: Floats, impacts: Floats, tasks: Words, share: float) -> RangeModel:
        """Fit `classifier` to the ranges of `impacts`."""
        ranges = Ranges.of(tasks, impacts, share)
        classes, places = np.unique(ranges.numbers(tasks, impacts), return_inverse=True)
        return cls(classifier.fit(x, places), classes, ranges)

    def predict(self, x: Floats, tasks: Words) -> Floats:
        """Return the impact in the middle of the predicted range of each row."""
        numbers = self.classes[np.asarray(self.classifier.predict(x), np.int64)]
        return (numbers + 0.5) * self.ranges.widths(tasks)


@dataclass(frozen=True)
class ImpactTable:
    """The table of features of co-runs, as the stage featurize wrote it.

    Attributes
    ----------
    frame : DataFrame
        The columns of `features.corun.rates.KEYS`, then the features.
    digest : str
        SHA-256 of the file.
    """

    frame: pd.DataFrame
    digest: str

    @classmethod
    def read(cls, path: Path) -> ImpactTable:
        """Read the table.

        Raises
        ------
        InputError
            If the file is missing or lacks a column.
        """
        if not path.is_file():
            raise InputError("no such file; run featurize first", file=path)
        frame = pd.read_parquet(path)
        missing = [name for name in (*KEYS, _DERIVED) if name not in frame.columns]
        if missing:
            raise InputError(f"lacks the column {missing[0]!r}", file=path)
        return cls(frame.reset_index(drop=True), digest_of(path))

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Every feature that is not the same in all rows."""
        columns = self.frame.columns[len(KEYS) :]
        values = self.frame[columns]
        return tuple(columns[(values.max() > values.min()).to_numpy()])

    @cached_property
    def rates(self) -> tuple[str, ...]:
        """The features of equation 1."""
        first = self.frame.columns.get_loc(_DERIVED)
        rates = set(self.frame.columns[len(KEYS) : first])
        return tuple(name for name in self.features if name in rates)

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """What models other than ours see: the rates, the solo times and what describes the machine."""
        known = {*self.rates, *_TIMES}
        return tuple(name for name in self.features if name in known or name.startswith(_MACHINE))

    def columns(self, model: str) -> tuple[str, ...]:
        """Return the features that a model of the catalogue sees."""
        return self.plain if CATALOGUE[model].prepared else self.features

    @property
    def events(self) -> tuple[str, ...]:
        """The events whose rates are features."""
        names = [
            name.removeprefix(p) for name in self.rates for p in (OWN, OTHERS, MOST) if name.startswith(p)
        ]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Learned:
    """A fitted model and the columns that it takes."""

    model: Any
    columns: tuple[str, ...]

    def predict(self, rows: pd.DataFrame) -> Floats:
        """Return impacts, shape (n_rows,)."""
        x = rows[list(self.columns)].to_numpy(np.float64)
        if isinstance(self.model, RangeModel):
            return self.model.predict(x, rows["task"].to_numpy(np.str_))
        if hasattr(self.model, "pairs_"):
            return np.asarray(self.model.predict(x, named_of(rows)), np.float64)
        return np.asarray(np.exp(np.minimum(self.model.predict(x), np.log(_LARGEST))), np.float64)

    def right(self, rows: pd.DataFrame, predicted: Floats, tolerance: float) -> NDArray[np.bool_]:
        """Return whether each row is predicted rightly, as the seed counts it.

        A regression is right within `tolerance` of the measured impact, a classification if the impact lies
        in the predicted range.
        """
        measured = rows["impact"].to_numpy(np.float64)
        if isinstance(self.model, RangeModel):
            tasks, ranges = rows["task"].to_numpy(np.str_), self.model.ranges
            return ranges.numbers(tasks, predicted) == ranges.numbers(tasks, measured)
        return np.abs(predicted / measured - 1) < tolerance


@dataclass(frozen=True)
class ImpactRecipe:
    """How to fit a model of the catalogue.

    Attributes
    ----------
    model : str
    params : mapping
        As its space gives them.
    columns : tuple of str
        The features that it sees.
    share : float
        The width of ranges, as a share of a task's mean impact.
    seed : int
    rates : tuple of str
        Those of the features that are left out if ``params["rates"]`` is false.
    """

    model: str
    params: Params
    columns: tuple[str, ...]
    share: float
    seed: int
    rates: tuple[str, ...] = ()

    def fit(self, rows: pd.DataFrame) -> Learned:
        """Fit to rows of the table of features."""
        own = {name: value for name, value in self.params.items() if name != "rates"}
        gone = set() if self.params.get("rates", True) else set(self.rates)
        columns = tuple(name for name in self.columns if name not in gone)
        unfitted = prepared(CATALOGUE[self.model], own, self.seed)
        x, y = rows[list(columns)].to_numpy(np.float64), rows["impact"].to_numpy(np.float64)
        if CATALOGUE[self.model].kind == "classification":
            tasks = rows["task"].to_numpy(np.str_)
            return Learned(RangeModel.fitted(unfitted, x, y, tasks, self.share), columns)
        if not CATALOGUE[self.model].prepared:
            return Learned(unfitted.fit(x, y, named_of(rows), sides_of(columns)), columns)
        return Learned(unfitted.fit(x, np.log(y)), columns)


def named_of(rows: pd.DataFrame) -> Named:
    """Name each row's task, co-runners and machine."""
    pairs = (rows["task"] + BESIDE + rows["corunners"]).to_numpy(np.str_)
    return Named(pairs, rows["machine"].to_numpy(np.str_))
