"""Wrong verdicts on SAP's labels, one by one, with pictures below docs/images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from benchmarks.guarantees import Learner
from benchmarks.human_labels.cases import ALARMS, Curve
from benchmarks.sap_hana import SAP_HANA, examples_of, feature_frames, read_series
from benchmarks.table import SEED, Table, publish
from data.comparisons.params import FeatureSet
from data.comparisons.sides import Floats
from data.comparisons.tables import ComparisonTables
from training.comparisons.family import Examples
from training.evaluation.metrics import score_verdicts
from training.evaluation.thresholds import best_cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDS = 5
MODELS = ("xgboost", "logistic")
#: Feature sets, and their suffix in the table.
SETS: dict[FeatureSet, str] = {"extended": "", "retrospective": ", retrospective"}
#: Seeds of the folds, and of the models.
SEEDS = range(SEED, SEED + 5)
#: Number of passes shown: those with the highest mean probability.
SUREST = 30
IMAGE = Path("docs/images/sap-hana-cases.png")
#: Versions drawn before and after the boundary; only retrospective models see those after the target.
BEFORE, AFTER = 40, 30
_COLUMNS, _WIDTH, _HEIGHT, _DPI = 5, 2.3, 1.25, 62
_COLOURS = {"history": "0.55", "baseline": "#1f6f8b", "target": "#a3310f", "later": "0.8"}
#: Headings of the figures of a model, and their formats.
FIGURES = {
    "balanced accuracy": ".3f", "missed fails": ".1%", "false alarms": ".1%",
    "missed at 2 % false alarms": ".1%", "missed at 0.5 %": ".1%", "average precision": ".3f",
}  # fmt: skip


#: Out-of-fold probabilities and verdicts of all rows; no model was trained on the operation of its row.
Predictions = tuple[Floats, NDArray[np.bool_]]


def predict_all_folds(learner: Learner, examples: Examples, seed: int) -> Predictions:
    probability, failed = np.zeros(len(examples.y)), np.zeros(len(examples.y), bool)
    for inside, inner, test, judged in learner.predict_folds(examples, FOLDS, seed):
        probability[test], failed[test] = judged, judged >= best_cut(inside.y, inner).threshold
    return probability, failed


def figure_row(name: str, examples: Examples, judged: Sequence[Predictions], rows: Any) -> tuple[str, ...]:
    """Return a row: every figure's mean and spread over the seeds of the folds, of some rows."""
    is_fail, seed_scores = examples.y[rows] == 1, []
    for probability, failed in ((column[rows] for column in predictions) for predictions in judged):
        scores = score_verdicts(is_fail, failed, probability)
        rates = scores.balanced_accuracy, scores.false_negative_rate, scores.false_positive_rate
        at_limits = map(Curve.of(is_fail, probability).false_negative_rate_at, ALARMS)
        seed_scores.append((*rates, *at_limits, scores.average_precision))
    cells = zip(FIGURES.values(), np.mean(seed_scores, axis=0), np.std(seed_scores, axis=0), strict=True)
    return (name, *(f"{mean:{form}} ± {spread:{form}}" for form, mean, spread in cells))


def worst_rows(y: NDArray[np.int64], judged: Sequence[Predictions], mean_probability: Floats) -> list[int]:
    mostly_missed = np.mean([~failed for _, failed in judged], axis=0) > 1 / 2
    fails, passes = np.flatnonzero((y == 1) & mostly_missed), np.flatnonzero(y == 0)
    fails, passes = fails[np.argsort(mean_probability[fails])], passes[np.argsort(-mean_probability[passes])]
    return [*fails.tolist(), *passes[:SUREST].tolist()]


def draw_cases(tables: ComparisonTables, titles: Mapping[str, str]) -> None:
    """Draw a panel for each comparison in `titles`."""
    from matplotlib.figure import Figure

    comparisons = tables.comparisons.set_index("comparison_id", drop=False).loc[[*titles]]
    results = dict(tuple(tables.results.groupby("operation")))
    rows = -(-len(titles) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT))
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.985, wspace=0.04, hspace=0.25)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for panel, comparison, title in zip(panels, comparisons.itertuples(), titles.values(), strict=False):
        _draw_versions(panel, comparison, results[comparison.operation])
        panel.set_title(title, fontsize=6, pad=2)
    for panel in panels[len(titles) :]:
        panel.set_axis_off()
    figure.savefig(IMAGE, dpi=_DPI, pil_kwargs={"optimize": True})


def _draw_versions(panel: Axes, comparison: Any, results: pd.DataFrame) -> None:
    """Draw the median of each version near the boundary; single spikes stay outside."""
    start = comparison.target_from
    near = results["order"].between(start - BEFORE, start + AFTER)
    levels = results[near].groupby("order")["value"].median()
    place, level = levels.index.to_numpy() - start, levels.to_numpy()
    panel.plot(place, level, color="0.85", linewidth=0.6, zorder=1)
    edges = (comparison.baseline_from, comparison.baseline_to + 1, comparison.target_to + 1)
    bounds = pairwise((-BEFORE, *(edge - start for edge in edges), AFTER + 1))
    for colour, (first, stop) in zip(_COLOURS.values(), bounds, strict=True):
        on_side = (place >= first) & (place < stop)
        panel.plot(place[on_side], level[on_side], ".", color=colour, markersize=3)
    panel.axvline(-0.5, color="0.4", linewidth=0.5)
    low, high = np.quantile(level, (0.02, 0.98))
    margin = 0.15 * (high - low) or 1.0
    panel.set(xticks=[], yticks=[], ylim=(low - margin, high + margin))


def main(path: Path = SAP_HANA) -> None:
    """Judge all comparisons, show the worst verdicts, and score models without unjustified labels."""
    tables = read_series(path)
    frames, judged = feature_frames(tables, "retrospective"), {}
    for seen, model in product(SETS, MODELS):
        table, examples = examples_of(frames, seen)
        learner = Learner(model, table.constraints)
        judged[model, seen] = examples, [predict_all_folds(learner, examples, seed) for seed in SEEDS]
    examples, best = judged[MODELS[0], "extended"]
    y, names, labels = examples.y, table.frame["comparison_id"].tolist(), table.frame["status"].tolist()
    # whether labels are justified online, and why, by operation and first target version
    remarks = pd.read_csv(Path(__file__).with_suffix(".csv"), keep_default_na=False, index_col=0)
    by_case, unreviewed = remarks.T.to_dict("list"), ["", "nobody has looked at it yet"]
    seen_by_person = [by_case.get(name.partition("/")[2], unreviewed) for name in names]
    mean_probability = np.mean([probability for probability, _ in best], axis=0)
    shown = [*enumerate(worst_rows(y, best, mean_probability), 1)]
    draw_cases(tables, {names[row]: f"{number} {names[row]} {labels[row]}" for number, row in shown})
    change = frames["changes"]["worst_change"].to_numpy(np.float64)
    rows = [
        (number, names[row], labels[row], mean_probability[row], -change[row], *seen_by_person[row])
        for number, row in shown
    ]
    summary = [
        figure_row(f"{model}{SETS[seen]}", examples, predictions, slice(None))
        for (model, seen), (_, predictions) in judged.items()
    ]
    fair = np.array([justified != "no" for justified, _ in seen_by_person])
    summary.append(figure_row(f"{MODELS[0]}, without what nobody could justify", examples, best, fair))
    lost = int(y[~fair].sum())
    summary_notes = f"""
    - {len(y)} comparisons, {y.sum()} fails, {len(np.unique(examples.groups))} operations; mean and spread
      over the seeds.
    - Models as they start, without a search; thresholds from inside each training part.
    - Retrospective: up to 40 versions after the target are known; otherwise none.
    - Nobody could justify: see below. Only wrong verdicts were looked at: it flatters.
    - {lost} of these are fails: who passes them and is right elsewhere has {1 - lost / y.sum() / 2:.3f}.
    - Data: SAP/performance-regression-data-set (CC-BY-4.0, SAP); marks: engineers of the study
      mtucci/changepoint-performance-regression-study.
    """
    notes = f"""
    - ![The cases](../images/{IMAGE.name})
    - A point is a version's median. Grey: history; blue: baseline; red: target; light grey: what came later.
    - Probability: mean over the seeds. Justified: whether one who sees nothing later could give that label.
    """
    columns = {"": "d", "comparison": "", "label": "", "probability": ".2f", "worse by": ".1%"}
    columns |= {"justified online": "", "what the picture shows": ""}
    wrong = f"Where {MODELS[0]} is wrong: missed fails, then the surest false alarms"
    heads, title = (
        dict.fromkeys(("model", *FIGURES), ""),
        "sap-hana: folds of whole operations, over five seeds",
    )
    publish(
        "sap-hana-cases", [Table(title, heads, summary, summary_notes), Table(wrong, columns, rows, notes)]
    )


if __name__ == "__main__":
    typer.run(main)
