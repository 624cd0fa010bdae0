"""Which labelled comparisons lie beside a model when it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.comparisons.examples import Examples, FeatureTable
from training.comparisons.precedents import Precedents
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import TrainedModel
from training.estimators.novelty import Familiar

Floats = NDArray[np.float64]
#: Most examples beside a model.
MOST = 2000
#: Rows that the model's importance of features is taken from.
_WEIGHED = 400
#: What tells who labelled a comparison, the first that is there.
_WHO = ("annotator", "labelled_by")


def remember(model: TrainedModel, table: FeatureTable, seen: Examples, labels: Path, directory: Path) -> None:
    """Write examples beside the model of `directory`.

    Parameters
    ----------
    model : TrainedModel
    table : FeatureTable
        What it learned from.
    seen : Examples
        All that comparisons of `table` may look like.
    labels : Path
        The table of labels, for who gave them.
    directory : Path
    """
    ready, examples = ReadyModel.of(model), table.examples
    chosen = _chosen(ready, examples.x, examples.y)
    named = table.frame.iloc[chosen].merge(
        _people(pd.read_parquet(labels)), "left", ["comparison_id", "status"]
    )
    texts = named[["comparison_id", "benchmark", "operation", "status", "labelled_by", "labelled_at"]].fillna(
        ""
    )
    identifiers, benchmarks, operations, statuses, people, dates = (
        texts[name].to_numpy(np.str_) for name in texts
    )
    Precedents(
        *(identifiers, benchmarks, operations, statuses, people, dates),
        examples.x[chosen].astype(np.float32),
        _importance(ready, examples.x, model.card.seed),
        _prior(table),
        Familiar.of(seen.x, seen.groups),
    ).write(directory)


def _chosen(ready: ReadyModel, rows: Floats, failed: NDArray[np.int64]) -> NDArray[np.intp]:
    """Choose `MOST` different rows at most, passes first: of each label half at the threshold."""
    _, different = np.unique(rows, axis=0, return_index=True)
    labels = [np.sort(different[failed[different] == label]) for label in (0, 1)]
    few = min(len(own) for own in labels)
    rooms = [max(MOST // 2, MOST - few) if len(own) > few else min(few, MOST // 2) for own in labels]
    return np.concatenate(
        [_of_label(ready, rows, own, room) for own, room in zip(labels, rooms, strict=True)]
    )


def _of_label(ready: ReadyModel, rows: Floats, own: NDArray[np.intp], room: int) -> NDArray[np.intp]:
    """Choose half of the room nearest to the threshold, the rest at random."""
    if len(own) <= room:
        return own
    order = own[np.argsort(np.abs(ready.probability(rows[own]) - ready.card.threshold), kind="stable")]
    others = np.random.default_rng(ready.card.seed).permutation(order[room // 2 :])
    return np.sort(np.concatenate([order[: room // 2], others[: room - room // 2]]))


def _importance(ready: ReadyModel, rows: Floats, seed: int) -> Floats:
    """Return the mean size of every feature's contributions, as shares of their sum."""
    drawn = np.random.default_rng(seed).permutation(len(rows))[:_WEIGHED]
    size = np.abs(ready.answers(rows[drawn])[1]).mean(axis=0)
    return size / size.sum() if size.sum() > 0 else np.full(len(size), 1 / len(size))


def _prior(table: FeatureTable) -> Floats:
    """Return how much worse medians got in what passed: the middle one, and what 19 of 20 stay below."""
    rooted = table.frame.loc[table.frame["status"] == "pass", "medians_min"].to_numpy(np.float64)
    known = rooted[rooted < 0] ** 2
    return np.quantile(known, [0.5, 0.95]) if len(known) else np.zeros(2)


def _people(labels: pd.DataFrame) -> pd.DataFrame:
    """Return who gave each comparison each label, and when last."""
    who = next(name for name in _WHO if name in labels)
    given = labels.assign(
        who=labels[who].fillna("").astype(str),
        at=labels.get("labelled_at", pd.NaT),
    )
    found = given.groupby(["comparison_id", "status"]).agg(
        labelled_by=("who", lambda names: ", ".join(sorted({*names} - {""}))), last=("at", "max")
    )
    when = found["last"].map(lambda at: "" if pd.isna(at) else at.isoformat(timespec="seconds"))
    return found.drop(columns="last").assign(labelled_at=when).reset_index()
