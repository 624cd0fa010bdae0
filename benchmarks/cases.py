"""Wrong verdicts on SAP's labels, one by one.

Run it with ``python -m benchmarks.cases --path ../shared/data/sap-hana``; it writes
``docs/results/sap-hana-cases.md`` and its pictures below ``docs/images``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import SEED, Table, publish
from data.comparisons import formats
from data.comparisons.params import Comparisons, FeatureSet
from data.comparisons.stages import validate_comparisons
from data.comparisons.tables import ComparisonTables
from data.params import load
from features.comparisons.featurize import training_tables
from features.comparisons.vectors import model_columns
from training.comparisons.family import Examples, FeatureTable, group_folds
from training.estimators.answering import MonotoneConstraints
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability
from training.evaluation.thresholds import below_min_effect, best_cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDS, INNER = 5, 3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SeedPredictions:
    """Out-of-fold predictions for all rows; no model was trained on the operation of its row."""

    probability: Floats
    failed: NDArray[np.bool_]

    def of(self, rows: NDArray[np.bool_]) -> SeedPredictions:
        return SeedPredictions(self.probability[rows], self.failed[rows])


@dataclass(frozen=True)
class CrossValidation:
    """A catalogue model with its first parameters, and the examples for its cross-validation."""

    model: str
    examples: Examples
    monotone: MonotoneConstraints | None = None

    def predict_all_folds(self, seed: int) -> SeedPredictions:
        rows = len(self.examples.y)
        probability, failed = np.zeros(rows), np.zeros(rows, bool)
        for train, test in group_folds(self.examples, FOLDS, seed, "folds"):
            inside = self.examples.select_rows(train)
            threshold = best_cut(inside.y, self._out_of_fold(inside, seed)).threshold
            test_probability = self._fail_probability(inside, self.examples.select_rows(test), seed)
            probability[test], failed[test] = test_probability, test_probability >= threshold
        return SeedPredictions(probability, failed)

    def _out_of_fold(self, examples: Examples, seed: int) -> Floats:
        probability = np.zeros(len(examples.y))
        for train, test in group_folds(examples, INNER, seed, "inner folds"):
            probability[test] = self._fail_probability(
                examples.select_rows(train), examples.select_rows(test), seed
            )
        return probability

    def _fail_probability(self, train: Examples, test: Examples, seed: int) -> Floats:
        model, lessons = CATALOGUE[self.model], train.training_rows
        fitted = build_pipeline(model, model.start, lessons.y, seed, self.monotone).fit(lessons.x, lessons.y)
        return np.where(test.needs_model, fail_probability(fitted, test.x), 0.0)


def false_negative_rate_at(alarms: float, y: NDArray[np.int64], probability: Floats) -> float:
    """Return the false negative rate at the threshold with a false positive rate of at most `alarms`."""
    passes = np.sort(probability[y == 0])[::-1]
    return float((probability[y == 1] <= passes[int(alarms * len(passes))]).mean())


#: Versions drawn before and after the boundary; only retrospective models see those after the target.
BEFORE, AFTER = 40, 30
_COLUMNS, _WIDTH, _HEIGHT, _DPI = 5, 2.3, 1.25, 62
_COLOURS = {"history": "0.55", "baseline": "#1f6f8b", "target": "#a3310f", "later": "0.8"}


class Case(NamedTuple):
    title: str
    versions: pd.DataFrame
    sides: dict[str, tuple[int, int]]


def case_around(title: str, comparison: NamedTuple, results: pd.DataFrame) -> Case:
    first, last, start, stop = (getattr(comparison, name) for name in _ENDS)
    near = results[results["order"].between(start - BEFORE, start + AFTER)]
    levels = near.groupby("order")["value"].median()
    versions = pd.DataFrame({"place": levels.index - start, "level": levels.to_numpy()})
    bounds = (-BEFORE, first - start, last + 1 - start, stop + 1 - start, AFTER + 1)
    return Case(title, versions, dict(zip(_COLOURS, pairwise(bounds), strict=True)))


_ENDS = ("baseline_from", "baseline_to", "target_from", "target_to")


def draw_sheet(cases: Sequence[Case], path: Path) -> None:
    from matplotlib.figure import Figure

    rows = -(-len(cases) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT))
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.985, wspace=0.04, hspace=0.25)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for panel, case in zip(panels, cases, strict=False):
        _draw_panel(panel, case)
    for panel in panels[len(cases) :]:
        panel.set_axis_off()
    figure.savefig(path, dpi=_DPI, pil_kwargs={"optimize": True})


def _draw_panel(panel: Axes, case: Case) -> None:
    place, level = (case.versions[name].to_numpy() for name in ("place", "level"))
    panel.plot(place, level, color="0.85", linewidth=0.6, zorder=1)
    for side, (first, stop) in case.sides.items():
        on_side = (place >= first) & (place < stop)
        panel.plot(place[on_side], level[on_side], ".", color=_COLOURS[side], markersize=3)
    panel.axvline(-0.5, color="0.4", linewidth=0.5)
    panel.set_ylim(*_limits(level))
    panel.set_title(case.title, fontsize=6, pad=2)
    panel.set(xticks=[], yticks=[])


def _limits(level: NDArray[np.float64]) -> tuple[float, float]:
    """Return the y-limits of a panel; single spikes stay outside."""
    low, high = np.quantile(level, (0.02, 0.98))
    margin = 0.15 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


MODELS = ("xgboost", "logistic")
#: Feature sets, and their suffix in the table.
SETS: Mapping[FeatureSet, str] = {"extended": "", "retrospective": ", retrospective"}
#: Seeds of the folds, and of the models.
SEEDS = range(SEED, SEED + 5)
#: Number of passes shown: those with the highest mean probability.
ALARMS = 30
IMAGE = Path("docs/images/sap-hana-cases.png")
SOURCE = (
    "Data: SAP/performance-regression-data-set (CC-BY-4.0, SAP); marks: engineers of the study "
    "mtucci/changepoint-performance-regression-study."
)


@dataclass(frozen=True)
class Data:
    """The tables, and a row of features for each comparison."""

    tables: ComparisonTables
    frame: pd.DataFrame
    change: np.ndarray
    bare: pd.DataFrame

    @classmethod
    def read(cls, path: Path) -> Data:
        """Read the data set and compute its features, also those that use versions after the target."""
        rules = load(Comparisons).section.ingest.label_rules
        tables = formats.read_tables("sap-hana", [path], label_rules=rules, keep_going=True).tables
        featurized = training_tables(tables, validate_comparisons(tables).comparisons, "retrospective")
        change = featurized["changes"]["worst_change"].to_numpy(np.float64)
        return cls(tables, featurized["features"], change, featurized["bare"])

    def question(self, model: str, seen: FeatureSet) -> CrossValidation:
        """Return the cross-validation of `model` on the feature set `seen`."""
        table, bare = (FeatureTable(frame, model_columns(seen), "") for frame in (self.frame, self.bare))
        min_effect_size = load(Comparisons).section.decide.min_effect_size or 0.0
        moved = self.bare["worst_change"].to_numpy(np.float64)
        without = replace(bare.examples, below=below_min_effect(moved, min_effect_size))
        examples = replace(table.examples, below=below_min_effect(self.change, min_effect_size), bare=without)
        return CrossValidation(model, examples, table.constraints)


def figure_row(name: str, y: np.ndarray, judged: Sequence[SeedPredictions]) -> tuple[object, ...]:
    """Return a row: every figure's mean and spread over the seeds of the folds."""
    from sklearn.metrics import average_precision_score, balanced_accuracy_score

    seed_scores = [
        (
            balanced_accuracy_score(y, predictions.failed),
            1 - predictions.failed[y == 1].mean(),
            predictions.failed[y == 0].mean(),
            false_negative_rate_at(0.02, y, predictions.probability),
            false_negative_rate_at(0.005, y, predictions.probability),
            average_precision_score(y, predictions.probability),
        )
        for predictions in judged
    ]
    forms = (".3f", ".1%", ".1%", ".1%", ".1%", ".3f")
    cells = zip(forms, np.mean(seed_scores, axis=0), np.std(seed_scores, axis=0), strict=True)
    return (name, *(f"{mean:{form}} ± {spread:{form}}" for form, mean, spread in cells))


HEADINGS = (
    "model",
    "balanced accuracy",
    "missed fails",
    "false alarms",
    "missed at 2 % false alarms",
    "missed at 0.5 %",
    "average precision",
)


def worst_rows(y: np.ndarray, judged: Sequence[SeedPredictions]) -> tuple[np.ndarray, np.ndarray]:
    """Return the fails missed by most seeds, and the `ALARMS` passes most like fails; the worst first."""
    mean_probability = np.mean([predictions.probability for predictions in judged], axis=0)
    mostly_missed = np.mean([~predictions.failed for predictions in judged], axis=0) > 1 / 2
    fails, passes = np.flatnonzero((y == 1) & mostly_missed), np.flatnonzero(y == 0)
    return fails[np.argsort(mean_probability[fails])], passes[np.argsort(-mean_probability[passes])][:ALARMS]


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--path", type=Path, default=Path("../shared/data/sap-hana"))
    data = Data.read(parser.parse_args().path)
    questions = {(model, seen): data.question(model, seen) for seen in SETS for model in MODELS}
    judged = {
        model_and_set: [candidate.predict_all_folds(seed) for seed in SEEDS]
        for model_and_set, candidate in questions.items()
    }
    examples = data.question(MODELS[0], "extended").examples
    best = judged[MODELS[0], "extended"]
    shown = [row for rows in worst_rows(examples.y, best) for row in rows.tolist()]
    names = data.frame["comparison_id"].tolist()
    mean_probability = np.mean([candidate.probability for candidate in best], axis=0)
    draw_cases(data, [names[row] for row in shown])
    rows = [
        (
            number,
            names[row],
            data.frame["status"].iloc[row],
            mean_probability[row],
            -data.change[row],
            *seen(names[row]),
        )
        for number, row in enumerate(shown, 1)
    ]
    summary = [
        figure_row(f"{model}{SETS[seen]}", examples.y, seed_predictions)
        for (model, seen), seed_predictions in judged.items()
    ]
    fair = np.array([seen(name)[0] != "no" for name in names])
    without = [candidate.of(fair) for candidate in best]
    summary.append(figure_row(f"{MODELS[0]}, without what nobody could justify", examples.y[fair], without))
    lost = int(examples.y[~fair].sum())
    max_accuracy = 1 - lost / examples.y.sum() / 2
    parts = (len(examples.y), examples.y.sum(), len(np.unique(examples.groups)))
    publish(
        "sap-hana-cases",
        [
            Table(
                "sap-hana: folds of whole operations, over five seeds",
                dict.fromkeys(HEADINGS, ""),
                summary,
                [
                    "{} comparisons, {} fails, {} operations; mean and spread over the seeds.".format(*parts),
                    "Models as they start, without a search; thresholds from inside each training part.",
                    "Retrospective: up to 40 versions after the target are known; otherwise none.",
                    "Nobody could justify: see below. Only wrong verdicts were looked at: it flatters.",
                    (
                        f"{lost} of these are fails: who passes them and is right elsewhere has "
                        f"{max_accuracy:.3f}."
                    ),
                    SOURCE,
                ],
            ),
            Table(
                f"Where {MODELS[0]} is wrong: missed fails, then the surest false alarms",
                {"": "d", "comparison": "", "label": "", "probability": ".2f", "worse by": ".1%"}
                | {"justified online": "", "what the picture shows": ""},
                rows,
                [f"![The cases](../images/{IMAGE.name})", *LEGEND],
            ),
        ],
    )


LEGEND = (
    "A point is a version's median. Grey: history; blue: baseline; red: target; light grey: what came later.",
    "Probability: mean over the seeds. Justified: whether one who sees nothing later could give that label.",
)


def read_remarks() -> dict[str, tuple[str, str]]:
    """Read whether labels are justified online, and why, by operation and first target version."""
    remarks = pd.read_csv(Path(__file__).with_suffix(".csv"), keep_default_na=False)
    return {case: (justified, reason) for case, justified, reason in remarks.itertuples(index=False)}


def seen(name: str) -> tuple[str, str]:
    """Return the remark of the person who reviewed the case: whether it is justified online, and why."""
    return read_remarks().get(name.partition("/")[2], ("", "nobody has looked at it yet"))


def draw_cases(data: Data, names: Sequence[str]) -> None:
    comparisons = data.tables.comparisons.set_index("comparison_id", drop=False)
    labels = data.frame.set_index("comparison_id")["status"]
    results = dict(tuple(data.tables.results.groupby("operation")))
    chosen = [next(comparisons.loc[[name]].itertuples()) for name in names]
    draw_sheet(
        [
            case_around(
                f"{number} {comparison.comparison_id} {labels[comparison.comparison_id]}",
                comparison,
                results[comparison.operation],
            )
            for number, comparison in enumerate(chosen, 1)
        ],
        IMAGE,
    )


if __name__ == "__main__":
    main()
