"""Models trained on the shipped measurement, applied to series that others measured and labelled.

Run it with ``python -m benchmarks.unseen --path ../shared/data/sap-hana`` after ``dvc repro``; it writes
``docs/results/sap-hana-unseen.md``. The labels of the data set are used only to score verdicts.
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
from data.comparisons.stages import validate
from data.comparisons.tables import ComparisonTables
from data.params import load
from data.paths import Places
from data.tables.documents import written
from training.comparisons.stored import ReadyModel
from training.evaluation.metrics import scores
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


def labelled(path: Path) -> tuple[Sides, NDArray[np.int64]]:
    """Return the valid labelled comparisons of SAP HANA's public series, and 1 for each fail, else 0."""
    rules = load(Comparisons).section.ingest.label_rules
    tables = formats.read("sap-hana", [path], label_rules=rules, keep_going=True).tables
    judged = tables.comparisons[["comparison_id"]].merge(
        validate(tables).comparisons, "left", "comparison_id"
    )
    kept = (judged["valid"].fillna(value=False) & judged["status"].notna()).to_numpy(bool)
    chosen = tables.comparisons[kept].reset_index(drop=True)
    sides = Sides.of(ComparisonTables(tables.results, chosen, tables.labels))
    return sides, (judged.loc[kept, "status"] == "fail").to_numpy(np.int64)


def row(name: str, model: ReadyModel, sides: Sides, y: NDArray[np.int64]) -> list[object]:
    probability, verdicts, failed = model.judged(sides), model.verdicts(sides), y == 1
    own = scores(failed, probability >= model.card.threshold, probability)
    return [
        name,
        own.balanced_accuracy,
        own.false_negative_rate,
        own.false_positive_rate,
        own.average_precision,
        best_cut(y, probability).balanced_accuracy,
        (verdicts == "unsure").mean(),
        (verdicts[failed] == "pass").mean(),
        (verdicts[~failed] == "fail").mean(),
    ]


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--path", type=Path, default=Path("../shared/data/sap-hana"))
    path, places = parser.parse_args().path, Places("comparisons")
    sides, y = labelled(path)
    champion = written(places.metrics, "evaluate")["champion"]
    models = {one.name: ReadyModel.read(one) for one in sorted(places.models.iterdir())}
    rows = [
        row(f"{name} (champion)" if name == champion else name, model, sides, y)
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
