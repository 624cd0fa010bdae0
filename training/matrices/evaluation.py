"""Models, the seed's tables, the ablation and the opponents, all on the same held-out test cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from training.evaluation.metrics import best_model, summary
from training.matrices.examples import MatrixExamples
from training.matrices.fitting import EngineFit, parts
from training.matrices.opponents import opponents
from training.matrices.schemes import AblationStep, Cell, TableRow, words
from training.matrices.scores import Held, row

T = TypeVar("T", TableRow, AblationStep)
#: Fits many, as `data.sidebyside.side_by_side` does.
Fitting = Callable[[list[EngineFit], str], list[Held]]


@dataclass
class Evaluation:
    """What cells said of held-out test cases; a cell is fitted once, whoever asks.

    Parameters
    ----------
    examples : MatrixExamples
    split : str
        The name of how test cases or pairs are divided.
    fold_of : Series of int
        The fold of each ``workload`` or ``pair_id``, which the index is named after.
    trials : int
        Of every search.
    seed : int
    fit_all : callable
    """

    examples: MatrixExamples
    split: str
    fold_of: pd.Series
    trials: int
    seed: int
    fit_all: Fitting
    found: dict[Cell, list[Held]] = field(default_factory=dict)

    def add(self, cells: Iterable[Cell], title: str) -> None:
        """Fit what of `cells` is not fitted yet, in every fold."""
        new = [cell for cell in dict.fromkeys(cells) if cell not in self.found]
        folds = parts(self.examples, self.fold_of)
        fits = [EngineFit(cell, part, self.trials, self.seed) for cell in new for part in folds]
        told = iter(self.fit_all(fits, title))
        self.found |= {cell: [next(told) for _ in folds] for cell in new}

    @property
    def abnormal(self) -> pd.Series:
        """The truth, by ``pair_id``."""
        return self.examples.pairs.set_index("pair_id")["abnormal"]

    def tables(self, rows: list[TableRow]) -> pd.DataFrame:
        """Return tables.parquet."""
        return self._counted(
            rows,
            lambda one: {
                "table": one.table,
                "row": one.row,
                "model": one.cell.model,
                "scheme": words(one.cell.scheme),
            },
        )

    def ablation(self, steps: list[AblationStep]) -> pd.DataFrame:
        """Return ablation.parquet."""
        return self._counted(
            steps,
            lambda one: {
                "part": one.part,
                "step": one.step,
                "remedy": one.remedy,
                "model": one.cell.model,
                **asdict(one.cell.scheme),
            },
        )

    def _counted(self, asked: Iterable[T], about: Callable[[T], dict[str, Any]]) -> pd.DataFrame:
        """Make a table of counts, whose numbers that may be missing are numbers even where all are."""
        truth = self.abnormal
        table = pd.DataFrame(about(one) | row(self.found[one.cell], truth, one.printed) for one in asked)
        numbers = [name for name in table if name.startswith("seed_") or name == "components"]
        return table.astype(dict.fromkeys(numbers, "float64"))

    def verdicts(self, cells: Iterable[Cell]) -> pd.DataFrame:
        """Return oof.parquet: these cells', and the opponents', verdicts on every pair."""
        told = [
            pd.concat([one.pairs.assign(fold=one.fold) for one in self.found[cell]]).assign(
                entry=cell.entry, kind="model", scheme=words(cell.scheme), model=cell.model
            )
            for cell in cells
        ]
        return self._with_truth([*told, *self._opponents()])

    def _opponents(self) -> Iterable[pd.DataFrame]:
        pairs = self.examples.pairs
        valid = self.examples.testing(pd.Index(pairs["pair_id"]))
        for one in opponents(valid, self.abnormal):
            yield pd.DataFrame(
                {
                    "pair_id": one.score.index,
                    "fold": pairs[self.fold_of.index.name].map(self.fold_of).to_numpy(),
                    "entry": one.name,
                    "kind": "opponent",
                    "scheme": "",
                    "model": "",
                    "group_used": "",
                    "probability": np.nan,
                    "threshold": one.threshold,
                    "judged": (one.score >= one.threshold).to_numpy(),
                }
            )

    def _with_truth(self, told: list[pd.DataFrame]) -> pd.DataFrame:
        known = self.examples.pairs.merge(self._causes(), on="pair_id", how="left", validate="one_to_one")
        rows = pd.concat(told, ignore_index=True).merge(known, on="pair_id", validate="many_to_one")
        verdict, status = (np.where(rows[name], "fail", "pass") for name in ("judged", "abnormal"))
        cause = rows["cause"].fillna("")
        rows = rows.assign(split=self.split, repeat=0, verdict=verdict, status=status, cause=cause)
        return rows[list(OOF_COLUMNS)]

    def _causes(self) -> pd.DataFrame:
        """Return the cause of each pair and its size, where they are known."""
        measured = self.examples.measured
        caused = measured.causes[measured.causes["cause"].fillna("") != ""]
        pair = measured.runs[["run_id", "pair_id"]]
        rows = caused.merge(pair, on="run_id", validate="many_to_one")
        return rows.drop_duplicates("pair_id")[["pair_id", "cause", "cause_size"]]


OOF_COLUMNS = (
    *("pair_id", "workload", "group", "split", "repeat", "fold", "entry", "kind", "scheme", "model"),
    *("group_used", "probability", "threshold", "verdict", "status", "cause", "cause_size"),
)


def selected(oof: pd.DataFrame) -> dict[str, Any]:
    """Summarise the best model of the other folds on every fold.

    The champion is the best of many on the very pairs that its figures come from, and so looks better than it
    is. Here no fold has a say in who judges it.
    """
    models = oof[oof["kind"] == "model"]
    chosen = []
    for fold in sorted(models["fold"].unique()):
        others = models[models["fold"] != fold]
        summaries = {str(name): summary(own) for name, own in others.groupby("entry", sort=True)}
        chosen.append(models[(models["fold"] == fold) & (models["entry"] == best_model(summaries))])
    return summary(pd.concat(chosen).assign(kind="selection"))
