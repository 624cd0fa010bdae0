"""Content of the report on matrices: the tables and figures of seed 001, for the given data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from serving.matrices.charts import (
    ablation_chart,
    causes_chart,
    cost_chart,
    dimensions_chart,
    groups_chart,
    sampling_chart,
    times_chart,
    validity_chart,
    validity_told,
)
from serving.matrices.evaluated import SPLIT, Beside, EvaluatedMatrices, Worth
from serving.reports.charts import Chart, counted, percent
from serving.reports.evaluation_files import Confusion, surest_mistakes
from serving.reports.rendering import ENGINE, render
from serving.reports.separation import CONFIDENCE, Leaders, between, lead, listed


class AblationRow(NamedTuple):
    """A row of the ablation, and the gain of its remedy; None for the reference row."""

    row: Beside
    worth: Worth | None


def advice(given: EvaluatedMatrices, mistakes: pd.DataFrame, without: Sequence[AblationRow]) -> Iterator[str]:
    """Yield sentences for the person who must act."""
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


#: Captions of the paper's tables.
TABLES = {
    2: "Before any remedy: false negatives of common classifiers on summary metrics",
    4: "Before any remedy but that invalid runs are left out",
    5: "All remedies of the paper",
    6: "Raw metrics instead of summary metrics",
    7: "Raw metrics, and a model per group",
    8: "Baselines beside targets, by three ways",
}
#: The mistakes that are listed.
MISTAKES = 10
#: Counted verdicts on unflagged runs.
_SERVED = ("fail", "pass", "invalid")


def page(root: Path) -> str:
    """Return the page for the files under `root`, as one self-contained HTML text."""
    given = EvaluatedMatrices.read(root)
    mistakes = surest_mistakes(given.champion, "pair_id", MISTAKES).fillna({"cause": ""})
    added, left_out = given.steps("added"), given.steps("left out")
    singles, fewer = given.steps("single runs", "target"), given.steps("single runs, left out", "target")
    without = [worths(rows, "left out") for rows in left_out]
    return render(
        "matrices.html",
        given=given,
        metrics=given.metrics,
        lead=summary(given),
        rivals=rivals(given),
        confusion=Confusion.of(given.champion),
        causes=causes_chart(given.champion),
        mistakes=mistakes.to_dict("records"),
        served=served(given.served),
        tables=[(number, told, given.table(number)) for number, told in TABLES.items()],
        added=[worths(rows, "added") for rows in added],
        left_out=without,
        ablations=list(ablations(added, left_out)),
        singles=[worths(rows, "added") for rows in singles],
        singles_without=[worths(rows, "left out") for rows in fewer],
        singles_drawn=list(of_singles(singles, fewer)),
        figures=list(figures(given)),
        validity=validity_told(given.validity),
        validity_figure=validity_chart(given.validity),
        grouping=[worths(rows, "grouping") for rows in given.steps("grouping")],
        groups=groups_chart(given.groups),
        points=list(advice(given, mistakes, [step for rows in without for step in rows])),
        papers=[ENGINE],
    )


def summary(given: EvaluatedMatrices) -> str:
    """Say in one sentence how often the champion errs on test cases that it never saw."""
    counts = Confusion.of(given.champion)
    passes = counted(counts.passes, "normal pair")
    told = counts.told(given.metrics.champion, "abnormal pair", passes)
    return f"On test cases that it never saw in training, {told}"


def rivals(given: EvaluatedMatrices) -> str:
    """Compare the champion with the best reference method, by balanced accuracy on the same pairs."""
    metrics, champion = given.metrics, given.champion
    best = metrics.split.best("opponent")
    if best is None:
        return ""
    ours, (name, theirs) = metrics.split.entries[metrics.champion], best
    opponent = given.verdicts[(given.verdicts["entry"] == name) & (given.verdicts["split"] == SPLIT)]
    found = between(champion, opponent, "pair_id", champion.set_index("pair_id")["fold"], metrics.seed)
    return (
        f"Its balanced accuracy, {ours.accuracy:.3f}, {lead(found)} that of the best opponent, {name}, "
        f"{theirs.accuracy:.3f} (interval: {percent(CONFIDENCE, 0)} of draws of whole folds). The opponents' "
        "thresholds are the best ones for the very pairs that they are scored on; the champion's was "
        "chosen inside the training part."
    )


def served(verdicts: pd.DataFrame) -> list[tuple[str, list[int]]]:
    """Count the verdicts on unflagged runs: by status, the numbers of fail, pass and invalid."""
    table = pd.crosstab(verdicts["status"], verdicts["verdict"])
    return [
        (str(status), [int(row.get(verdict, 0)) for verdict in _SERVED]) for status, row in table.iterrows()
    ]


def worths(rows: Sequence[Beside], part: str) -> list[AblationRow]:
    """Return the rows of one model in a part of the ablation with the gain of each remedy.

    "added": compared with the previous row; "left out": the first row's gain over it; "grouping": compared
    with the
    first row.
    """
    steps = [AblationRow(rows[0], None)]
    for before, row in pairwise(rows):
        beside = before if part == "added" else rows[0]
        steps.append(AblationRow(row, Worth.of(beside, row) if part == "left out" else Worth.of(row, beside)))
    return steps


def ablations(
    added: list[list[Beside]], left_out: list[list[Beside]]
) -> Iterator[tuple[str, Chart | None, str]]:
    """Draw the ablation: number, chart, and what to say where it cannot be drawn."""
    yield "One remedy after another", ablation_chart("added", added, alone=False), "No ablation was run."
    yield "One remedy alone left out", ablation_chart("left-out", left_out, alone=True), "None was left out."


def of_singles(
    added: list[list[Beside]], left_out: list[list[Beside]]
) -> Iterator[tuple[str, Chart | None, str]]:
    """Draw the ablation of single runs in the same way."""
    for number, name, steps, alone in (
        ("Single runs, one remedy after another", "single", added, False),
        ("Single runs, one remedy alone left out", "single-left-out", left_out, True),
    ):
        yield number, ablation_chart(name, steps, alone=alone, of="target runs"), "No ablation was run."


def figures(given: EvaluatedMatrices) -> Iterator[tuple[str, Chart | None, str]]:
    """Draw figures 4 to 7: number, chart, and what to say where it cannot be drawn."""
    none = "reports/matrices/evaluated/curves.parquet does not hold this curve."
    folds = given.metrics.split.folds
    yield "Figure 4 of the analysis engine paper", cost_chart(given.curves, folds), none
    yield "Figure 5 of the analysis engine paper", sampling_chart(given.curves, folds), none
    yield "Figure 6 of the analysis engine paper", dimensions_chart(given.curves, folds), none
    yield "Figure 7 of the analysis engine paper", times_chart(given.times), "Nothing was timed."
