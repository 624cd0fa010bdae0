"""Labels that look wrong: what models that had not seen them say, and what other people say.

Source: C. Northcutt, L. Jiang, I. Chuang, Confident learning: estimating uncertainty in dataset labels,
Journal of Artificial Intelligence Research 70 (2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import disagreements
from data.comparisons.labels.votes import decided

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Suspect:
    """A label to look at again.

    Attributes
    ----------
    comparison_id, status : str
    labelled_by : str
        Who says so.
    probability : float
        Of fail, by the model that had not seen the operation.
    doubt : float
        By how much the model is surer of the other verdict than it usually is where that is the label; among
        people who don't agree, 0.
    why : tuple of str
        In words.
    """

    comparison_id: str
    status: str
    labelled_by: str
    probability: float
    doubt: float
    why: tuple[str, ...]


def suspects(verdicts: pd.DataFrame, champion: str, labels: pd.DataFrame) -> list[Suspect]:
    """Return the labels that look wrong, the most doubtful first, then those on which people don't agree.

    A label is suspected if the model is at least as sure of the other verdict as it is on average where the
    other verdict is the label (its threshold of confidence, by fold: each has a scale of its own).

    Parameters
    ----------
    verdicts : DataFrame
        Held-out verdicts of models, a row per ``entry`` and ``comparison_id``, with ``fold, verdict, status,
        probability``, each comparison once an entry.
    champion : str
        The entry whose probabilities count; of the others, how many gainsay the label is told.
    labels : DataFrame
        As of `data.comparisons.tables`.
    """
    own = verdicts[verdicts["entry"] == champion].set_index("comparison_id")
    doubt = pd.Series(doubts(own), own.index)
    gainsaid = verdicts["verdict"] != verdicts["status"]
    against = gainsaid.groupby(verdicts["comparison_id"]).agg(["sum", "size"])
    divided = disagreements(labels, own["status"]).set_index("comparison_id")
    divided = divided[divided.index.isin(own.index)]
    named = _names(labels)
    doubted = doubt[doubt >= 0].sort_values(ascending=False, kind="stable").index
    return [
        Suspect(
            key,
            str(own.loc[key, "status"]),
            named.get(key, "unknown"),
            float(own.loc[key, "probability"]),
            max(0.0, float(doubt[key])),
            (*_of_models(own.loc[key], against.loc[key], key in doubted), *_of_people(divided, key)),
        )
        for key in [*doubted, *divided.index[~divided.index.isin(doubted)]]
    ]


def doubts(own: pd.DataFrame) -> Floats:
    """Return by how much each row is beyond the threshold of confidence of the verdict that is not its label.

    Below 0 is no ground for doubt; NaN where a fold lacks a label of the other kind.
    """
    fail = np.asarray(own["status"] == "fail")
    other = np.where(fail, 1 - own["probability"], own["probability"])
    sure = pd.Series(np.where(fail, own["probability"], 1 - own["probability"]))
    kinds = pd.DataFrame({"fold": own["fold"].to_numpy(), "fail": fail, "sure": sure})
    means = kinds.groupby(["fold", "fail"])["sure"].mean()
    wanted = pd.MultiIndex.from_arrays([kinds["fold"], ~kinds["fail"]])
    return np.asarray(other - means.reindex(wanted).to_numpy(np.float64))


def _names(labels: pd.DataFrame) -> dict[str, str]:
    """Say who labelled each comparison: who settled it, or else all who voted."""
    labels = decided(labels)
    settled = labels["annotator"].isna()
    rows = labels[settled | ~labels["comparison_id"].isin(labels.loc[settled, "comparison_id"])]
    return dict(rows.dropna(subset=["labelled_by"]).groupby("comparison_id")["labelled_by"].agg(", ".join))


def _of_models(row: pd.Series, against: pd.Series, doubted: bool) -> tuple[str, ...]:
    if not doubted:
        return ()
    told = f"models that never saw it give fail {row['probability']:.2f}"
    return told, f"{against['sum']} of {against['size']} models gainsay the label"


def _of_people(divided: pd.DataFrame, key: str) -> tuple[str, ...]:
    if key not in divided.index:
        return ()
    return tuple(f"{divided.loc[key, f'said_{word}']} said {word}" for word in ("fail", "pass"))
