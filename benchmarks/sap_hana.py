"""Models trained on the shipped measurement, applied to series that others measured and labelled.

Run it with ``python -m benchmarks.sap_hana --path ../shared/data/sap-hana`` after ``dvc repro``; it writes
``docs/results/sap-hana-held-out.md``. The labels of the data set are used only to score verdicts.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import SEED, Table
from data.comparisons import formats
from data.comparisons.params import Comparisons
from data.comparisons.sides import Sides
from data.comparisons.stages import validate_comparisons
from data.comparisons.tables import ComparisonTables
from data.params import load
from data.paths import FamilyPaths
from data.tables.documents import written
from training.comparisons.stored import ReadyModel
from training.evaluation.metrics import score_verdicts
from training.evaluation.thresholds import best_cut

COLUMNS = {
    "model": "",
    "balanced accuracy": ".3f",
    "missed fails": ".1%",
    "false alarms": ".1%",
    "average precision": ".3f",
    "at its best threshold": ".3f",
    "sent to a person": ".1%",
    "missed beside them": ".1%",
    "false alarms beside them": ".1%",
}


def read_labelled(path: Path) -> tuple[ComparisonTables, NDArray[np.int64]]:
    """Return the valid labelled comparisons of SAP HANA's public series, and 1 for each fail, else 0."""
    rules = load(Comparisons).section.ingest.label_rules
    tables = formats.read_tables("sap-hana", [path], label_rules=rules, keep_going=True).tables
    judged = tables.comparisons[["comparison_id"]].merge(
        validate_comparisons(tables).comparisons, "left", "comparison_id"
    )
    usable = (judged["valid"].fillna(value=False) & judged["status"].notna()).to_numpy(bool)
    chosen = tables.comparisons[usable].reset_index(drop=True)
    labelled = ComparisonTables(tables.results, chosen, tables.labels)
    return labelled, (judged.loc[usable, "status"] == "fail").to_numpy(np.int64)


def score_row(name: str, model: ReadyModel, sides: Sides, y: NDArray[np.int64]) -> list[object]:
    probability, verdicts, failed = model.predict_uncleaned(sides), model.decide_verdicts(sides), y == 1
    model_scores = score_verdicts(failed, probability >= model.card.threshold, probability)
    return [
        name,
        model_scores.balanced_accuracy,
        model_scores.false_negative_rate,
        model_scores.false_positive_rate,
        model_scores.average_precision,
        best_cut(y, probability).balanced_accuracy,
        (verdicts == "unsure").mean(),
        (verdicts[failed] == "pass").mean(),
        (verdicts[~failed] == "fail").mean(),
    ]


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--path", type=Path, default=Path("../shared/data/sap-hana"))
    path, paths = parser.parse_args().path, FamilyPaths("comparisons")
    tables, y = read_labelled(path)
    sides = Sides.from_tables(tables)
    champion = written(paths.metrics, "evaluate")["champion"]
    models = {folder.name: ReadyModel.read(folder) for folder in sorted(paths.models.iterdir())}
    rows = [
        score_row(f"{name} (champion)" if name == champion else name, model, sides, y)
        for name, model in models.items()
    ]
    Table(
        f"The shipped models on {path.name}, of which they know no label",
        COLUMNS,
        sorted(rows, key=lambda cells: -float(str(cells[1]))),
        (
            f"Data set: {path.name}, {len(y)} comparisons, {y.sum()} fails.",
            f"Models, thresholds and cuts come from data/raw/measured alone, seed {SEED}.",
            "How the measurement is made and a champion is chosen was decided with a view of these labels.",
        ),
    ).publish(f"{path.name}-unseen")


if __name__ == "__main__":
    main()
