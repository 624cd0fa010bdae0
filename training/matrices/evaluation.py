"""Models, the seed's tables, the ablation and the opponents, all on the same held-out test cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from training.evaluation.metrics import summary
from training.matrices.choice import ranked
from training.matrices.engine.alarms import Alarms
from training.matrices.examples import MatrixExamples
from training.matrices.fitting import EngineFit, FoldPart
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
        The name of how cases are divided.
    parts : sequence of FoldPart
        What is learned from and what is asked, by fold.
    trials : int
        Of every search.
    seed : int
    fit_all : callable
    alarms : Alarms or None
        What those that are tuned promise.
    """

    examples: MatrixExamples
    split: str
    parts: Sequence[FoldPart]
    trials: int
    seed: int
    fit_all: Fitting
    alarms: Alarms | None = None
    found: dict[Cell, list[Held]] = field(default_factory=dict)

    def add(self, cells: Iterable[Cell], title: str) -> None:
        """Fit what of `cells` is not fitted yet, in every fold."""
        new = [cell for cell in dict.fromkeys(cells) if cell not in self.found]
        fits = [self._fit(cell, part) for cell in new for part in self.parts]
        told = iter(self.fit_all(fits, title))
        self.found |= {cell: [next(told) for _ in self.parts] for cell in new}

    def _fit(self, cell: Cell, part: FoldPart) -> EngineFit:
        alarms = self.alarms if cell.scheme.tuned else None
        return EngineFit(cell, part, self.trials, self.seed, alarms=alarms)

    @property
    def abnormal(self) -> pd.Series:
        """The truth, by ``pair_id``."""
        return self.examples.pairs.set_index("pair_id")["abnormal"]

    @property
    def fold_of(self) -> pd.Series:
        """The fold in which a pair is asked about, by ``pair_id``."""
        of_parts = [part.test.runs["pair_id"].drop_duplicates() for part in self.parts]
        folds = np.repeat([part.fold for part in self.parts], [len(pairs) for pairs in of_parts])
        return pd.Series(folds, pd.Index(pd.concat(of_parts), name="pair_id"))

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
        fold_of = self.fold_of
        valid = self.examples.testing(fold_of.index)
        for one in opponents(valid, self.abnormal[self.abnormal.index.isin(fold_of.index)]):
            yield pd.DataFrame(
                {
                    "pair_id": one.score.index,
                    "fold": fold_of.loc[one.score.index].to_numpy(),
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
        chosen.append(models[(models["fold"] == fold) & (models["entry"] == ranked([summaries])[0])])
    return summary(pd.concat(chosen).assign(kind="selection"))
