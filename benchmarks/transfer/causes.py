"""Matrices of causes that nobody has seen: learned from some of DBSherlock's, asked about the others.

Whole causes are held out, and with them the runs that they were injected into.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.transfer.row import TransferRow
from data.matrices.formats.dbsherlock import read
from data.matrices.params import Matrices
from data.matrices.tables import SIDES, MatrixTables
from data.matrices.validity import decide
from data.tables.problems import Problems
from training.evaluation.metrics import Scores, scores
from training.matrices.engine.engine import FULL, Engine
from training.matrices.engine.judges import Alarms
from training.matrices.engine.shape import pruned
from training.matrices.fitting import FoldPart, MatrixExamples, parts_of_causes

#: Of whole causes, two each.
FOLDS = 5
#: Of which that is asked which ranks best inside the training part.
MODELS = ("logistic", "svm", "knn", "random-forest", "xgboost")
FIGURES = ("balanced_accuracy", "false_positive_rate", "average_precision")
EVEN = 0.5


def rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Yield what ours, a plain XGBoost and a plain forest come to on DBSherlock's causes."""
    examples = _examples(read(shared / "dbsherlock"))
    parts, truth = parts_of_causes(examples, FOLDS, seed), examples.pairs.set_index("pair_id")["abnormal"]
    for judge, ask in (("ours", _ours), ("plain XGBoost", _xgboost), ("plain forest", _forest)):
        told = [ask(part, seed) for part in parts]
        folds = [_scored(one, truth) for one in told]
        whole = _scored(pd.concat(told), truth)
        for figure in FIGURES:
            each = [getattr(fold, figure) for fold in folds]
            # every fold has a scale of probabilities of its own
            value = float(np.mean(each)) if figure == "average_precision" else getattr(whole, figure)
            words = figure.replace("_", " ").replace("false positive rate", "false alarms")
            about = ("dbsherlock", "whole causes", "normal or abnormal", len(examples.pairs))
            yield TransferRow(*about, judge, words, float(value), float(np.std(each)))


def _examples(tables: MatrixTables) -> MatrixExamples:
    sound = tables.without_flaws(Problems())
    return MatrixExamples.of(sound, decide(sound, Matrices().checks.missing), "")


def _ours(part: FoldPart, seed: int) -> pd.DataFrame:
    how = Matrices()
    alarms = Alarms(how.decide.false_alarms or EVEN, how.decide.confidence)
    engines = [
        Engine(FULL, model, how.evaluate.trials, seed, alarms=alarms).fit(part.train) for model in MODELS
    ]
    judged = max(engines, key=lambda engine: engine.found.ranking).judged(part.test)
    return judged.assign(judged=judged["abnormal"])


def _xgboost(part: FoldPart, seed: int) -> pd.DataFrame:
    from xgboost import XGBClassifier

    return _plain(part, XGBClassifier(random_state=seed, n_jobs=1))


def _forest(part: FoldPart, seed: int) -> pd.DataFrame:
    from sklearn.ensemble import RandomForestClassifier

    return _plain(part, RandomForestClassifier(random_state=seed))


def _plain(part: FoldPart, classifier: Any) -> pd.DataFrame:
    """Return what is said by a classifier as it comes, of the medians of both sides and their difference."""
    train = pruned(part.train)
    (x, pairs), (asked, names) = _medians(train, train.raw), _medians(part.test, train.raw)
    y = train.runs.groupby("pair_id")["abnormal"].any().reindex(pairs).astype(int)
    told = classifier.fit(x, y).predict_proba(asked)[:, 1]
    return pd.DataFrame({"pair_id": names, "probability": told, "judged": told >= EVEN})


def _medians(tables: MatrixTables, metrics: Sequence[str]) -> tuple[NDArray[np.float64], pd.Index]:
    sides = tables.runs.groupby(["pair_id", "side"])[list(metrics)].median().unstack("side")
    before, after = (sides.xs(side, axis="columns", level="side").to_numpy(np.float64) for side in SIDES)
    return np.hstack([before, after, after - before]), sides.index


def _scored(told: pd.DataFrame, truth: pd.Series) -> Scores:
    failed = truth.loc[told["pair_id"]].to_numpy(bool)
    return scores(failed, told["judged"].to_numpy(bool), told["probability"].to_numpy(np.float64))
