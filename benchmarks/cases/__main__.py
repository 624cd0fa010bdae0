"""Wrong verdicts on SAP's labels, one by one.

Run it with ``python -m benchmarks.cases --path ../shared/data/sap-hana``; it writes
``docs/results/sap-hana-cases.md`` and its pictures below ``docs/images``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.cases.folds import Judged, Question, missed_at
from benchmarks.cases.looked_at import LOOKED_AT
from benchmarks.cases.pictures import case_of, sheet
from benchmarks.table import SEED, Table, publish
from data.comparisons import formats
from data.comparisons.params import Comparisons, FeatureSet
from data.comparisons.stages import validate
from data.comparisons.tables import ComparisonTables
from data.params import load
from features.comparisons.vectors import columns, featurize
from training.comparisons.decision import below_floor
from training.comparisons.family import FeatureTable

MODELS = ("xgboost", "logistic")
#: What models see, and how that is told.
SETS: Mapping[FeatureSet, str] = {"extended": "", "retrospective": ", retrospective"}
#: Seeds of the folds, and of the models.
SEEDS = range(SEED, SEED + 5)
#: So many of the passes are shown: those that the models are surest about.
ALARMS = 30
IMAGE = Path("docs/images/sap-hana-cases.png")
SOURCE = (
    "Data: SAP/performance-regression-data-set (CC-BY-4.0, SAP); marks: engineers of the study "
    "mtucci/changepoint-performance-regression-study."
)


@dataclass(frozen=True)
class Data:
    """What is judged: the tables, and a row of features for each comparison."""

    tables: ComparisonTables
    frame: pd.DataFrame
    change: np.ndarray
    bare: pd.DataFrame

    @classmethod
    def read(cls, path: Path) -> Data:
        """Read the data set, and make its features: also those that look past the target."""
        rules = load(Comparisons).section.ingest.label_rules
        tables = formats.read("sap-hana", [path], label_rules=rules, keep_going=True).tables
        found = featurize(tables, validate(tables).comparisons, "retrospective")
        change = found["changes"]["worst_change"].to_numpy(np.float64)
        return cls(tables, found["features"], change, found["bare"])

    def question(self, model: str, seen: FeatureSet) -> Question:
        """Ask a model that sees these features."""
        table, bare = (FeatureTable(frame, columns(seen), "") for frame in (self.frame, self.bare))
        floor = load(Comparisons).section.decide.floor or 0.0
        moved = self.bare["worst_change"].to_numpy(np.float64)
        without = replace(bare.examples, below=below_floor(moved, floor))
        examples = replace(table.examples, below=below_floor(self.change, floor), bare=without)
        return Question(model, examples, table.guide)


def figures(name: str, y: np.ndarray, judged: Sequence[Judged]) -> tuple[object, ...]:
    """Return a row: every figure's mean over the seeds of the folds, and its spread."""
    from sklearn.metrics import average_precision_score, balanced_accuracy_score

    told = [
        (
            balanced_accuracy_score(y, one.failed),
            1 - one.failed[y == 1].mean(),
            one.failed[y == 0].mean(),
            missed_at(0.02, y, one.probability),
            missed_at(0.005, y, one.probability),
            average_precision_score(y, one.probability),
        )
        for one in judged
    ]
    forms = (".3f", ".1%", ".1%", ".1%", ".1%", ".3f")
    cells = zip(forms, np.mean(told, axis=0), np.std(told, axis=0), strict=True)
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


def worst(y: np.ndarray, judged: Sequence[Judged]) -> tuple[np.ndarray, np.ndarray]:
    """Return the fails that most seeds miss, and the passes that look most like fails; the worst first."""
    said = np.mean([one.probability for one in judged], axis=0)
    missed = np.mean([~one.failed for one in judged], axis=0) > 1 / 2
    fails, passes = np.flatnonzero((y == 1) & missed), np.flatnonzero(y == 0)
    return fails[np.argsort(said[fails])], passes[np.argsort(-said[passes])][:ALARMS]


def main() -> None:
    """Judge, look, and write the page."""
    parser = ArgumentParser()
    parser.add_argument("--path", type=Path, default=Path("../shared/data/sap-hana"))
    data = Data.read(parser.parse_args().path)
    questions = {(model, seen): data.question(model, seen) for seen in SETS for model in MODELS}
    judged = {asked: [one.judged(seed) for seed in SEEDS] for asked, one in questions.items()}
    examples = data.question(MODELS[0], "extended").examples
    best = judged[MODELS[0], "extended"]
    shown = [row for rows in worst(examples.y, best) for row in rows.tolist()]
    names = data.frame["comparison_id"].tolist()
    said = np.mean([one.probability for one in best], axis=0)
    draw(data, [names[row] for row in shown])
    rows = [
        (number, names[row], data.frame["status"].iloc[row], said[row], -data.change[row], *seen(names[row]))
        for number, row in enumerate(shown, 1)
    ]
    command = "python -m benchmarks.cases --path ../shared/data/sap-hana"
    summary = [figures(f"{model}{SETS[seen]}", examples.y, told) for (model, seen), told in judged.items()]
    fair = np.array([seen(name)[0] != "no" for name in names])
    without = [one.of(fair) for one in best]
    summary.append(figures(f"{MODELS[0]}, without what nobody could justify", examples.y[fair], without))
    lost = int(examples.y[~fair].sum())
    most = 1 - lost / examples.y.sum() / 2
    parts = (len(examples.y), examples.y.sum(), len(np.unique(examples.groups)))
    publish(
        "sap-hana-cases",
        [
            Table(
                "sap-hana: folds of whole operations, over five seeds",
                command,
                dict.fromkeys(HEADINGS, ""),
                summary,
                [
                    "{} comparisons, {} fails, {} operations; mean and spread over the seeds.".format(*parts),
                    "Models as they start, without a search; thresholds from inside each training part.",
                    "Retrospective: up to 40 versions after the target are known; otherwise none.",
                    "Nobody could justify: see below. Only wrong verdicts were looked at: it flatters.",
                    f"{lost} of these are fails: who passes them and is right elsewhere has {most:.3f}.",
                    SOURCE,
                ],
            ),
            Table(
                f"Where {MODELS[0]} is wrong: missed fails, then the surest false alarms",
                command,
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


def seen(name: str) -> tuple[str, str]:
    """Return what a person saw who looked at the case."""
    return LOOKED_AT.get(name.partition("/")[2], ("", "nobody has looked at it yet"))


def draw(data: Data, names: Sequence[str]) -> None:
    """Draw the sheet of some comparisons."""
    comparisons = data.tables.comparisons.set_index("comparison_id", drop=False)
    labels = data.frame.set_index("comparison_id")["status"]
    results = dict(tuple(data.tables.results.groupby("operation")))
    chosen = [next(comparisons.loc[[name]].itertuples()) for name in names]
    sheet(
        [
            case_of(f"{number} {one.comparison_id} {labels[one.comparison_id]}", one, results[one.operation])
            for number, one in enumerate(chosen, 1)
        ],
        IMAGE,
    )


if __name__ == "__main__":
    main()
