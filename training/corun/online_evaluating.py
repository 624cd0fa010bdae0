"""How accurate the online model is after so many seconds of samples, for tasks it has never seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from training.corun.online import Pairing, Sampled, fitted, paired
from training.corun.splits import DESIGNS

#: Stage two by the models of table 1, and boosted trees.
SECOND = ("linear", "svm", "random-forest", "xgboost")


#: What identifies a co-run that was sampled.
KEYS = ["task", "corunners", "machine", "repetition"]


def ratios(samples: pd.DataFrame, instances: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Return by how much the first seconds of co-runs differ from those of the task alone.

    Returns
    -------
    DataFrame
        Columns of `KEYS`, then per event log(rate + 1) of the co-run less that of the solo run.
    """
    sampled = Sampled.of(samples, seconds)
    pairs = paired(sampled.runs, instances)
    changed = sampled.start[pairs.corun, :, 0] - sampled.start[pairs.solo, :, 0]
    keys = sampled.runs.iloc[pairs.corun][KEYS].reset_index(drop=True)
    return pd.concat([keys, pd.DataFrame(changed, columns=list(sampled.events))], axis="columns")


def second(name: str, seed: int) -> Any:
    """Return an unfitted model of stage two; ratios are not normalised (seed 002, section 4)."""
    from training.corun.estimators.models import CATALOGUE

    model = CATALOGUE[name]
    return model.build({**model.start, **model.in_search, "trees": 100}, seed, None)


@dataclass(frozen=True)
class Asked:
    """A fold of samples of so many seconds: to learn from `known` and to judge by `unseen`."""

    sampled: Sampled
    known: Pairing
    unseen: Pairing
    design: str
    fold: int
    seconds: float
    seed: int

    @classmethod
    def of(
        cls, samples: pd.DataFrame, instances: pd.DataFrame, seconds: float, folds: int, seed: int
    ) -> Iterator[Asked]:
        """Divide co-runs at random, as the seed does, and into families never seen ("tasks")."""
        sampled = Sampled.of(samples, seconds)
        pairs = paired(sampled.runs, instances)
        table = pd.DataFrame({"families": pairs.families})
        for design in ("random", "tasks"):
            for fold, (train, test) in enumerate(DESIGNS[design].divide(table, folds, seed)):
                if len(test):
                    yield cls(sampled, pairs.rows(train), pairs.rows(test), design, fold, seconds, seed)


def judged(asked: Asked) -> pd.DataFrame:
    """Predict held-out co-runs.

    Returns
    -------
    DataFrame
        ``task, corunners, machine, repetition, model, measured, predicted, design, fold, seconds``.
    """
    sampled, unseen = asked.sampled, asked.unseen
    keys = sampled.runs.iloc[unseen.corun][KEYS].reset_index(drop=True)
    models = fitted(sampled, asked.known, [second(name, asked.seed) for name in SECOND])
    own = [
        keys.assign(
            model=name,
            measured=unseen.impact,
            predicted=model.predict(sampled.start[unseen.solo], sampled.start[unseen.corun]),
        )
        for name, model in zip(SECOND, models, strict=True)
    ]
    return pd.concat(own).assign(design=asked.design, fold=asked.fold, seconds=asked.seconds)


def by_seconds(predictions: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """Return ``seconds, design, model, within_tolerance, spread`` (of it, over the folds)``, mape, r2``."""
    rows = []
    for (seconds, design, model), own in predictions.groupby(["seconds", "design", "model"], sort=True):
        error = np.abs(own["predicted"] / own["measured"] - 1)
        inside = (error < tolerance).groupby(own["fold"]).mean()
        left = ((own["measured"] - own["predicted"]) ** 2).sum()
        rows.append(
            {
                "seconds": seconds,
                "design": design,
                "model": model,
                "within_tolerance": float((error < tolerance).mean()),
                "spread": float(inside.std(ddof=0)),
                "mape": float(error.mean()),
                "r2": float(1 - left / ((own["measured"] - own["measured"].mean()) ** 2).sum()),
            }
        )
    return pd.DataFrame(rows)
