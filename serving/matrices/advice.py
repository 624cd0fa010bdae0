"""What the report tells those who act on it: what to expect, what to keep, what to measure again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from serving.matrices.evaluated import Beside, EvaluatedMatrices, Worth
from serving.pages.apart import CONFIDENCE, Leaders, listed
from serving.pages.charts import counted, percent
from serving.pages.evaluated import Confusion


class AblationRow(NamedTuple):
    """A row of the ablation, and what its remedy is worth; None for the row that others stand beside."""

    row: Beside
    worth: Worth | None


def advice(given: EvaluatedMatrices, mistakes: pd.DataFrame, without: Sequence[AblationRow]) -> Iterator[str]:
    """Yield sentences for the person who must act.

    Parameters
    ----------
    given : EvaluatedMatrices
    mistakes : DataFrame
        The wrong verdicts that the champion was surest of.
    without : sequence of AblationRow
        Of each remedy alone left out.
    """
    counts = Confusion.of(given.champion)
    if counts.passes:
        alarms = counts.false_alarms / counts.passes
        yield (
            f"Expect about {counted(round(1000 * alarms), 'false alarm')} in 1,000 normal pairs of test "
            f"cases that it does not know: if these are too many, lower `matrices.decide.false_alarms`."
        )
    if len(mistakes):
        pairs = listed([str(one) for one in mistakes["pair_id"].head(3)])
        yield f"Look at {pairs} first: there the champion is surest and people say otherwise."
    rare = _rare(given.champion)
    if rare:
        yield rare
    yield from _kept(without)
    models = given.verdicts[(given.verdicts["kind"] == "model") & (given.verdicts["split"] == "test-cases")]
    right = models.assign(right=models["verdict"] == models["status"])
    leaders = Leaders.of(right.pivot_table(index="fold", columns="entry", values="right"))
    others = [name for name in leaders.all if name != given.metrics.champion]
    if others and given.metrics.champion in leaders.all:
        yield (
            f"Do not choose between {listed([given.metrics.champion, *others])} by this page: they "
            f"cannot be told apart."
        )


def _rare(champion: pd.DataFrame) -> str:
    """Say how little is known of a cause that was met a few times only."""
    known = champion[(champion["cause"].fillna("") != "") & (champion["status"] == "fail")]
    if known.empty:
        return ""
    sizes = known["cause"].value_counts()
    missed = known[known["verdict"] != "fail"]["cause"].unique()
    if len(missed):
        return (
            f"Do not rely on it to find {listed(sorted(map(str, missed)))}: some of these pairs were missed."
        )
    fewest = int(sizes.min())
    # what is found every time may still be missed as often as this
    sure = (1 - CONFIDENCE) ** (1 / fewest)
    return (
        f"Do not take every cause for found: with {counted(fewest, 'pair')} of {sizes.idxmin()}, all "
        f"found, its true share may still be {percent(sure, 0)}."
    )


def _kept(without: Sequence[AblationRow]) -> Iterator[str]:
    told = [(step.worth, step.row.name) for step in without if step.worth is not None]
    helping = [name for worth, name in told if worth.told == "helps"]
    idle = [name for worth, name in told if worth.told != "helps"]
    leave = f"of {listed([_quoted(name) for name in idle])} it cannot be told that they help" if idle else ""
    if helping:
        yield f"Keep {listed([_quoted(name) for name in helping])}{f'; {leave}' if leave else ''}."
    elif idle:
        yield f"Leave remedies out one by one: {leave}."


def _quoted(name: str) -> str:
    return f'"{name}"'
