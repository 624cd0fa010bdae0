"""Storage of a trained engine: the model, and a card that describes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import FiniteFloat, StrictBool

from data.errors import InputError
from data.matrices.tables import METRIC_DTYPES, MatrixTables
from data.matrices.validity import signed
from data.tables.specs import typed
from training.matrices.engine.engine import Engine, FittedEngine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.validity_tree import ValidityTree
from training.matrices.schemes import Cell
from training.registry.stored import CARD, MODEL, StoredCard, loaded, store

if TYPE_CHECKING:
    from training.evaluation.thresholds import Promised
    from training.matrices.engine.engine import FittedEngine
    from training.matrices.engine.judges import Alarms
    from training.matrices.engine.validity_tree import ValidityTree


@dataclass(frozen=True)
class KnownMetric:
    """A metric that an engine takes; `signed` is inferred from training data if not declared."""

    metric: str
    unit: str | None
    signed: StrictBool | None
    note: str | None


@dataclass(frozen=True)
class KeptAlarms:
    """The guarantee on the false positive rate for normal pairs of unseen test cases.

    `kept`: whether there were enough test cases; `measured`: the mean share on held-out test cases.
    """

    share: FiniteFloat
    confidence: FiniteFloat
    kept: StrictBool
    measured: FiniteFloat | None

    @classmethod
    def of(cls, promised: Promised | None, asked: Alarms | None) -> KeptAlarms | None:
        """Return the guarantee that a search found, or None where none was requested."""
        if promised is None or asked is None:
            return None
        return cls(promised.share, asked.confidence, promised.cut is not None, promised.measured)


@dataclass(frozen=True)
class EngineCard(StoredCard):
    """The card of an engine.

    Attributes
    ----------
    entry : str
        Its name in metrics.json, such as ``xgboost contrasted``.
    metrics : tuple of KnownMetric
        All metrics that it takes, raw and summary.
    groups, own : tuple of str
        Groups in the training data, and those with a classifier.
    threshold : float
        ``fail`` from this probability on.
    missing : float
        Largest share of the raw metrics that may be missing from a run, or from all runs.
    data_digest : str
        SHA-256 of the training tables.
    promise : KeptAlarms or None
        None where no guarantee was requested.
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
    promise: KeptAlarms | None = None

    @cached_property
    def known_metrics(self) -> pd.DataFrame:
        """Return the metrics as a table with the columns of `data.matrices.tables.MatrixTables.metrics`."""
        return typed(pd.DataFrame(list(self.metrics)), METRIC_DTYPES)


def described(metrics: pd.DataFrame) -> tuple[KnownMetric, ...]:
    """Convert a table of metrics to the form that `EngineCard` stores."""
    rows = metrics.astype(object).where(metrics.notna(), None)
    return tuple(KnownMetric(**row) for row in rows[list(METRIC_DTYPES)].to_dict("records"))


@dataclass(frozen=True)
class TrainedEngine:
    """A fitted engine, the validity tree (None where no run was flagged invalid), and the card."""

    engine: FittedEngine
    validity: ValidityTree | None
    card: EngineCard

    def write(self, directory: Path) -> None:
        """Write ``model.skops`` and ``card.json`` to `directory`."""
        store(directory, {"engine": self.engine, "validity": self.validity}, self.card)

    @classmethod
    def read(cls, directory: Path) -> TrainedEngine:
        """Read the files of `write`; errors as of `training.registry.stored.StoredModel.read`."""
        parts = loaded(directory)
        if not isinstance(parts, dict) or not isinstance(parts.get("engine"), FittedEngine):
            told = "holds no regression-matrix model that training wrote"
            raise InputError(told, file=directory / MODEL)
        card = EngineCard.read(directory)
        named = {metric.metric for metric in card.metrics}
        tree = parts.get("validity")
        taken = [*parts["engine"].metrics, *(() if tree is None else tree.known.metrics)]
        unnamed = [name for name in taken if name not in named]
        if unnamed:
            told = f'metrics: lacks "{unnamed[0]}", which the model beside it takes'
            raise InputError(told, file=directory / CARD)
        return cls(parts["engine"], parts.get("validity"), card)


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

    def train(self, tables: MatrixTables) -> TrainedEngine:
        """Train on `tables`, whose flags are the labels."""
        cell = self.cell
        engine = Engine(cell.scheme, cell.model, self.trials, self.seed, alarms=self.alarms).fit(tables)
        card = EngineCard(
            entry=cell.entry,
            model=cell.model,
            scheme=asdict(cell.scheme),
            metrics=described(tables.metrics.assign(signed=signed(tables))),
            groups=tuple(sorted(tables.runs["group"].unique())),
            own=tuple(sorted(engine.judges.own)),
            threshold=engine.threshold,
            promise=KeptAlarms.of(engine.found.alarms, self.alarms),
            params=dict(engine.found.params),
            missing=self.missing,
            data_digest=self.digest,
            seed=self.seed,
        )
        validity = ValidityTree.fit(tables, self.seed) if self.validity else None
        return TrainedEngine(engine, validity, card)
