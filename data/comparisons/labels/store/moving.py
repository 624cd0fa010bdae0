"""Labels of tables go into the store, and come back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import cast

import pandas as pd

from data.comparisons.labels.store.label_store import AT_ONCE, LONG_AGO, GivenLabel, LabelStore, Status
from data.comparisons.tables import LABEL_DTYPES
from data.errors import InputError
from data.tables.specs import typed


@dataclass(frozen=True)
class Moved:
    """How many labels came into a store, were there, and are nobody's in particular, which stay away."""

    added: int
    known: int
    nobodys: int


def move_in(labels: pd.DataFrame, store: LabelStore, by: str | None = None) -> Moved:
    """Add people's labels to a store; those that are there are known by what they say, of what, who and when.

    Parameters
    ----------
    labels : DataFrame
        As of `data.comparisons.tables`. A label without a time counts as older than any with one.
    store : LabelStore
    by : str, optional
        Who gave the labels that don't say it. By default those stay away: they are settled, a consensus or
        the truth of an injected change, and no person's.

    Raises
    ------
    InputError
        If a label is of the future: it would count for longer than it should. If the store does not answer;
        the labels before may have been added.
    """
    people = labels["annotator"].fillna(by) if by is not None else labels["annotator"]
    named = labels.assign(annotator=people)[people.notna()]
    kept = store.everything()
    given = [one for one in map(_given, named.to_dict("records")) if one.content not in kept]
    fresh = 0
    for start in range(0, len(given), AT_ONCE):
        for added in store.add_all(given[start : start + AT_ONCE]):
            if isinstance(added, InputError):
                raise added
            fresh += added.fresh
    return Moved(fresh, len(named) - fresh, len(labels) - len(named))


def _given(row: dict[str, object]) -> GivenLabel:
    at = LONG_AGO if pd.isna(row["labelled_at"]) else pd.Timestamp(str(row["labelled_at"])).to_pydatetime()
    if at > datetime.now(UTC):
        raise InputError(
            f'labelled_at="{at.isoformat()}" is in the future', place=f'label of "{row["comparison_id"]}"'
        )
    told = (str(row["comparison_id"]), str(row["status"]), str(row["annotator"]), at.isoformat())
    key = sha256("\n".join(map(repr, told)).encode()).hexdigest()
    return GivenLabel(told[0], cast(Status, told[1]), told[2], f"imported-{key}", labelled_at=at)


def moved_out(store: LabelStore, labels: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return what people say now.

    Parameters
    ----------
    store : LabelStore
    labels : DataFrame, optional
        Of the data itself. They stay, but for those of people of whom the store knows something later: who
        has withdrawn a label there has withdrawn it.

    Returns
    -------
    DataFrame
        As of `data.comparisons.tables`.

    Raises
    ------
    AwayError
        If the store does not answer.
    """
    last = store.last()
    last["labelled_at"] = last["labelled_at"].where(last["labelled_at"] > LONG_AGO)
    given = last[last["status"].notna()]
    if labels is None:
        return given
    whose = ["comparison_id", "annotator"]
    replaced = pd.MultiIndex.from_frame(labels[whose]).isin(pd.MultiIndex.from_frame(last[whose]))
    return typed(pd.concat([labels[~replaced], given], ignore_index=True), LABEL_DTYPES)
