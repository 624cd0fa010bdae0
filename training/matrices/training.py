"""From flagged runs to an engine that can be stored and asked: classifiers, validity tree and card."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from data.matrices.schema import signed
from data.matrices.tables import MatrixTables
from training.matrices.engine.alarms import Alarms
from training.matrices.engine.engine import Engine
from training.matrices.engine.stored import EngineCard, KeptAlarms, TrainedEngine, described
from training.matrices.engine.validity_tree import ValidityTree
from training.matrices.schemes import Cell


@dataclass(frozen=True)
class EngineRecipe:
    """How an engine is trained.

    Attributes
    ----------
    cell : Cell
    trials : int
    seed : int
    validity : bool
        Whether there is a validity tree to learn.
    missing : float
        The share of the raw metrics that a run may lack.
    digest : str
        Of the data.
    alarms : Alarms or None
        What is to be promised of false alarms.
    """

    cell: Cell
    trials: int
    seed: int
    validity: bool
    missing: float
    digest: str
    alarms: Alarms | None = None

    def train(self, tables: MatrixTables) -> TrainedEngine:
        """Learn from `tables`, whose flags are the labels."""
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
