"""Report on matrices: the tables and figures of the matrix paper for the present data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from data.paths import FamilyPaths
from serving.matrices.charts import (
    CURVE_FIGURES,
    ablation_chart,
    causes_chart,
    curve_chart,
    groups_chart,
    times_chart,
    validity_chart,
    validity_sentence,
)
from serving.matrices.evaluated import SPLIT, EvaluatedMatrices, RemedyGain, TableRow
from serving.matrices.mistakes import BEYOND, WorstMistakes, mistakes_chart, noise_units
from serving.reports.charts import Chart, percent, with_noun
from serving.reports.evaluation_files import Confusion, other_data_rows
from serving.reports.rendering import ENGINE, render
from serving.reports.separation import CONFIDENCE, Leaders, compare_entries, difference_predicate, join_names
from training.matrices.fitting import MatrixExamples


class AblationRow(NamedTuple):
    """A row of the ablation, and the gain of its remedy; None for the reference row."""

    row: TableRow
    worth: RemedyGain | None


def report_advice(
    evaluation: EvaluatedMatrices, mistakes: pd.DataFrame, without: Sequence[AblationRow]
) -> Iterator[str]:
    """Yield recommendations: on false alarms, labels to check, causes, remedies, and the choice of a model.

    Each is omitted if it does not apply. `mistakes` has the ``pair_id`` of the champion's wrong verdicts, the
    surest first; `without` holds the results of `ablation_rows` for the part "left out", of all models in one
    sequence.
    """
    counts = Confusion.from_verdicts(evaluation.champion_verdicts)
    if counts.n_passes:
        alarms = with_noun(round(1000 * (counts.false_positives / counts.n_passes)), "false alarm")
        yield (
            f"Expect about {alarms} in 1,000 normal pairs of new test cases. If these are too many, lower "
            "`matrices.decide.max_false_positive_rate` in params.yaml."
        )
    if len(mistakes):
        pairs = join_names([f'"{pair}"' for pair in mistakes["pair_id"].head(3)])
        yield f"Check the labels of {pairs} first: the champion contradicts them with the highest confidence."
    yield from _cause_advice(evaluation.champion_verdicts)
    yield from _remedy_advice(without)
    verdicts = evaluation.verdicts[evaluation.verdicts["split"] == SPLIT]
    models = verdicts[verdicts["kind"] == "model"]
    right = models.assign(right=models["verdict"] == models["status"])
    leaders = Leaders.from_scores(right.pivot_table(index="fold", columns="entry", values="right")).all_names
    others = [name for name in leaders if name != evaluation.metrics.champion]
    if others and evaluation.metrics.champion in leaders:
        yield (
            f"Do not choose between {join_names([evaluation.metrics.champion, *others])} by this page: their "
            "shares of correct verdicts do not differ significantly."
        )


def _cause_advice(champion: pd.DataFrame) -> Iterator[str]:
    abnormal = champion[(champion["cause"].fillna("") != "") & (champion["status"] == "fail")]
    if abnormal.empty:
        return
    false_negatives = abnormal[abnormal["verdict"] != "fail"]["cause"].unique()
    if len(false_negatives):
        causes = join_names([f"“{cause}”" for cause in sorted(map(str, false_negatives))])
        yield f"Do not rely on the champion to detect these causes: {causes}. It missed some of their pairs."
        return
    sizes = abnormal["cause"].value_counts()
    fewest = int(sizes.min())
    # lower confidence limit of the share of found pairs if all were found
    share = (1 - CONFIDENCE) ** (1 / fewest)
    yield (
        f"Do not assume that every cause is detected: all {with_noun(fewest, 'pair')} of {sizes.idxmin()} "
        f"were detected, but the true share may be as low as {percent(share, 0)}."
    )


def _remedy_advice(without: Sequence[AblationRow]) -> Iterator[str]:
    worths = [(step.worth, f'"{step.row.name}"') for step in without if step.worth is not None]
    helping = [name for worth, name in worths if worth.effect == "helps"]
    idle = [name for worth, name in worths if worth.effect != "helps"]
    if not worths:
        return
    loss = f"the balanced accuracy of {without[0].row.model} significantly"
    source = 'table "one remedy omitted"'
    no_loss = f"omitting {'one of ' if len(idle) > 1 else ''}{join_names(idle)} does not" if idle else ""
    if helping:
        remedies = "remedy" if len(helping) == 1 else "remedies"
        omitting = "omitting it" if len(helping) == 1 else "omitting any one of them"
        yield (
            f"Keep the {remedies} {join_names(helping)} (of the method): in the ablation study, "
            f"{omitting} lowers {loss}"
            f"{f'; {no_loss}' if idle else ''} ({source})."
        )
    else:
        yield f"Try fewer remedies of the method: in the ablation study, {no_loss} lower {loss} ({source})."


#: Captions of the paper's tables.
TABLES = {
    2: "False negatives of common classifiers on summary metrics, invalid runs excluded",
    4: "Table 2 again, with the false positives of the paper",
    5: "Raw metrics, groups, principal components, and tuned cost, resampling and threshold",
    6: "Raw metrics instead of summary metrics",
    7: "Raw metrics, and a model per group",
    8: "Baseline runs concatenated or subtracted, and similarity-logistic",
}
#: Parts of the ablation study by anchor: name in the data, unit of the accuracy, and heading.
ABLATIONS = {
    "added": ("added", "pair", "Remedies added one after another"),
    "left-out": ("left out", "pair", "One remedy omitted"),
    "single": ("single runs", "target", "Single runs, remedies added one after another"),
    "single-left-out": ("single runs, left out", "target", "Single runs, one remedy omitted"),
}


def page(root: Path) -> str:
    """Return the page of project `root` as self-contained HTML.

    InputError if a file of the stages is missing or invalid; only ``times.parquet`` may be missing.
    """
    evaluation = EvaluatedMatrices.read(root)
    counts = Confusion.from_verdicts(evaluation.champion_verdicts)
    mistakes = WorstMistakes.from_verdicts(evaluation.champion_verdicts, _noise_units(root, evaluation))
    ablation, figures = {}, {}
    for name, (part, same, heading) in ABLATIONS.items():
        steps, alone = evaluation.ablation_steps(part, same), part.endswith("left out")
        ablation[name] = [ablation_rows(rows, "left out" if alone else "added") for rows in steps]
        unit = "pairs" if same == "pair" else "target runs"
        figures[name] = (heading, ablation_chart(name, steps, alone=alone, unit=unit), "No ablation was run.")
    normal = with_noun(counts.n_passes, "normal pair")
    errors = counts.error_sentence(evaluation.metrics.champion, "abnormal pair", normal)
    served = pd.crosstab(evaluation.served["status"], evaluation.served["verdict"])
    served = served.reindex(columns=["fail", "pass", "invalid"], fill_value=0)
    return render(
        "matrices.html",
        given=evaluation,
        metrics=evaluation.metrics,
        lead=f"On test cases held out of training, the champion {errors}",
        rivals=reference_comparison(evaluation),
        confusion=counts,
        causes=causes_chart(evaluation.champion_verdicts),
        worst=mistakes,
        mistakes=mistakes.rows.to_dict("records"),
        mistakes_figure=mistakes_chart(mistakes) if len(mistakes.rows) else None,
        beyond=BEYOND,
        served=[(str(status), counted.tolist()) for status, counted in served.iterrows()],
        tables=[(number, caption, evaluation.table_rows(number)) for number, caption in TABLES.items()],
        ablation=ablation,
        ablation_figures=figures,
        figures=curve_figures(evaluation),
        validity=validity_sentence(evaluation.validity),
        validity_figure=validity_chart(evaluation.validity),
        grouping=[ablation_rows(rows, "grouping") for rows in evaluation.ablation_steps("grouping")],
        groups=groups_chart(evaluation.groups),
        points=list(report_advice(evaluation, mistakes.rows, [*chain.from_iterable(ablation["left-out"])])),
        transfer=other_data_rows(root, "matrices"),
        papers=[ENGINE],
    )


def _noise_units(root: Path, evaluation: EvaluatedMatrices) -> pd.DataFrame:
    paths = FamilyPaths("matrices", root)
    tables = MatrixExamples.read(paths.interim, paths.valid).tables
    fold_of = evaluation.champion_verdicts.set_index("pair_id")["fold"]
    chosen = tables.runs["pair_id"].isin(fold_of.index) & tables.runs["valid"]
    return noise_units(tables.select_runs(chosen.to_numpy(bool)), fold_of)


def reference_comparison(evaluation: EvaluatedMatrices) -> str:
    """Return plain sentences that compare balanced accuracy of the champion and the best reference method.

    They begin with "Its", which needs a sentence on the champion before, and have the confidence interval of
    the difference. They are "" if no reference method was evaluated.
    """
    metrics, champion = evaluation.metrics, evaluation.champion_verdicts
    best = metrics.split.best_entry("opponent")
    if best is None:
        return ""
    ours, (name, theirs) = metrics.split.entries[metrics.champion], best
    verdicts, fold = evaluation.verdicts, champion.set_index("pair_id")["fold"]
    reference = verdicts[(verdicts["entry"] == name) & (verdicts["split"] == SPLIT)]
    difference = compare_entries(champion, reference, "pair_id", fold, metrics.seed)
    return (
        f"Its balanced accuracy, {ours.pooled_accuracy:.3f}, {difference_predicate(difference)} that of the "
        f'best reference method, "{name}" ({theirs.pooled_accuracy:.3f}). The range in brackets is the '
        f"{percent(CONFIDENCE, 0)} interval of the difference, from a bootstrap over folds. "
        "Thresholds of reference methods are optimised on the test pairs, which favours these methods; the "
        "champion's threshold was chosen on training data."
    )


def ablation_rows(rows: Sequence[TableRow], part: str) -> list[AblationRow]:
    """Return each ``row`` of `rows`, one model's rows of the ablation, with its remedy's gain, ``worth``.

    The gain is a difference of balanced accuracies with its standard error, None for the first row. By
    `part`, it is row minus previous row ("added"), first row minus row ("left out"), or row minus first row
    ("grouping"). IndexError without rows.
    """
    steps = [AblationRow(rows[0], None)]
    for before, row in pairwise(rows):
        reference = before if part == "added" else rows[0]
        compared = (reference, row) if part == "left out" else (row, reference)
        steps.append(AblationRow(row, RemedyGain.from_rows(*compared)))
    return steps


def curve_figures(evaluation: EvaluatedMatrices) -> list[tuple[str, Chart | None, str]]:
    """Return figures 4 to 7 of the analysis engine paper: name, chart or None, and a text without a chart."""
    curves = evaluation.curves
    folds = int(curves["folds"].min()) if len(curves) else 0
    missing = "reports/matrices/evaluated/curves.parquet does not hold this curve."
    charts = [(curve_chart(curves, figure, folds), missing) for figure in CURVE_FIGURES]
    charts.append((times_chart(evaluation.times), "No times were measured."))
    return [(f"Figure {number} of {ENGINE.short}", *chart) for number, chart in enumerate(charts, 4)]
