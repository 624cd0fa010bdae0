"""Storage of a trained engine: the model, and a card that describes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import FiniteFloat, StrictBool

from data.errors import InputError
from data.matrices.tables import METRIC_DTYPES, MatrixTables
from data.matrices.validity import may_be_negative
from data.tables.specs import with_dtypes
from training.matrices.engine.engine import Engine, FittedEngine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.validity_tree import ValidityTree
from training.matrices.schemes import Cell
from training.registry.stored import CARD, MODEL, StoredCard, load_model, store_model


@dataclass(frozen=True)
class KnownMetric:
    """A metric that an engine takes; `signed` is inferred from training data if not declared."""

    metric: str
    unit: str | None
    signed: StrictBool | None
    note: str | None


@dataclass(frozen=True)
class AlarmGuarantee:
    """The guarantee on the false positive rate for normal pairs of unseen test cases.

    `kept`: whether there were enough test cases; `measured`: the mean share on held-out test cases.
    """

    share: FiniteFloat
    confidence: FiniteFloat
    kept: StrictBool
    measured: FiniteFloat | None


@dataclass(frozen=True)
class EngineCard(StoredCard):
    """The card of an engine.

    `entry` is its name in metrics.json, such as ``xgboost contrasted``; `metrics` are all metrics that it
    takes, raw and summary; `groups` are those of the training data, `own` those with a classifier. ``fail``
    is given from the probability `threshold` on. `missing` is the largest share of the raw metrics that may
    be missing from a run, or from all runs; `data_digest` the SHA-256 of the training tables;
    `risk_guarantee` is None where none was requested.
    """

    entry: str
    model: str
    scheme: dict[str, Any]
    metrics: tuple[KnownMetric, ...]
    groups: tuple[str, ...]
    own: tuple[str, ...]
    threshold: FiniteFloat
    params: dict[str, Any]
    missing: FiniteFloat
    data_digest: str
    seed: int
    risk_guarantee: AlarmGuarantee | None = None

    @cached_property
    def known_metrics(self) -> pd.DataFrame:
        """The metrics as a table with the columns ``metric, unit, signed, note``."""
        return with_dtypes(pd.DataFrame(list(self.metrics)), METRIC_DTYPES)


@dataclass(frozen=True)
class TrainedEngine:
    """A fitted engine, the validity tree (None where no run was flagged invalid), and the card."""

    engine: FittedEngine
    validity: ValidityTree | None
    card: EngineCard

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`."""
        store_model(directory, {"engine": self.engine, "validity": self.validity}, self.card)

    @classmethod
    def read(cls, directory: Path) -> TrainedEngine:
        """Read the files of `write`.

        Raises InputError if a file is missing or damaged, a type is not trusted, it is another kind of model,
        or the card misses a metric.
        """
        parts = load_model(directory)
        if not isinstance(parts, dict) or not isinstance(parts.get("engine"), FittedEngine):
            raise InputError("holds no regression-matrix model", file=directory / MODEL)
        card, engine, tree = EngineCard.read(directory), parts["engine"], parts.get("validity")
        named = {metric.metric for metric in card.metrics}
        for name in (*engine.metrics, *(() if tree is None else tree.scales.metrics)):
            if name not in named:
                message = f'metrics: "{name}" is missing; expected every metric that {MODEL} takes'
                raise InputError(message, file=directory / CARD)
        return cls(engine, tree, card)


@dataclass(frozen=True)
class EngineRecipe:
    """Training settings of an engine; `validity`: whether to learn a validity tree, `digest`: of the data."""

    cell: Cell
    trials: int
    seed: int
    validity: bool
    missing: float
    digest: str
    alarms: Alarms | None = None

    def train(
        self, tables: MatrixTables, engine: FittedEngine | None = None, groups: tuple[str, ...] = ()
    ) -> TrainedEngine:
        """Return the engine, validity tree and card trained on `tables`, whose flags are the labels.

        `engine`, if given, was fitted with these settings to these tables, or to more, of `groups`. Raises
        InputError if a name is unknown, or the remaining runs are all normal or all abnormal.
        """
        # classifiers and trees grow outside Python's lock
        with ThreadPoolExecutor(1) as beside:
            tree = beside.submit(ValidityTree.fit, tables, self.seed) if self.validity else None
            engine = engine or Engine(self.cell, self.trials, self.seed, alarms=self.alarms).fit(tables)
        metrics = tables.metrics.assign(signed=may_be_negative(tables))[list(METRIC_DTYPES)]
        metric_rows = metrics.astype(object).where(metrics.notna(), None).to_dict("records")
        risk_guarantee, guarantee = None, engine.search_result.alarms
        if guarantee is not None and self.alarms is not None:
            kept, measured = guarantee.cut is not None, guarantee.measured
            risk_guarantee = AlarmGuarantee(guarantee.share, self.alarms.confidence, kept, measured)
        card = EngineCard(
            entry=self.cell.entry_name,
            model=self.cell.model,
            scheme=asdict(self.cell.scheme),
            metrics=tuple(KnownMetric(**row) for row in metric_rows),
            groups=groups or tuple(sorted(tables.runs["group"].unique())),
            own=tuple(sorted(engine.judges.of_groups)),
            threshold=engine.threshold,
            params=dict(engine.search_result.params),
            missing=self.missing,
            data_digest=self.digest,
            seed=self.seed,
            risk_guarantee=risk_guarantee,
        )
        return TrainedEngine(engine, None if tree is None else tree.result(), card)
