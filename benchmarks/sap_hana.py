"""Models trained on the shipped measurement, applied to series that others measured and labelled.

The labels of the data set are used only to score verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from benchmarks.table import SEED, SHARED, Table
from data.comparisons import formats
from data.comparisons.params import Comparisons, FeatureSet
from data.comparisons.sides import Floats, Sides
from data.comparisons.stages import validate_comparisons
from data.comparisons.tables import ComparisonTables
from data.params import load
from data.paths import FamilyPaths
from data.tables.documents import written
from features.comparisons.featurize import training_tables
from features.comparisons.vectors import model_columns
from training.comparisons.family import Examples, FeatureTable
from training.comparisons.stored import ReadyModel
from training.evaluation.metrics import score_verdicts
from training.evaluation.thresholds import below_min_effect, best_cut

SAP_HANA = SHARED / "sap-hana"
COLUMNS = {
    "model": "", "balanced accuracy": ".3f", "missed fails": ".1%", "false alarms": ".1%",
    "average precision": ".3f", "at its best threshold": ".3f", "sent to a person": ".1%",
    "missed beside them": ".1%", "false alarms beside them": ".1%",
}  # fmt: skip


def read_series(path: Path) -> ComparisonTables:
    """Return the tables of SAP HANA's public series, labelled by the rules of params.yaml."""
    rules = load(Comparisons).section.ingest.label_rules
    return formats.read_tables("sap-hana", [path], label_rules=rules, keep_going=True).tables


def read_labelled(path: Path) -> tuple[ComparisonTables, NDArray[np.int64]]:
    """Return the valid labelled comparisons of SAP HANA's public series, and 1 for each fail, else 0."""
    tables = read_series(path)
    validated = validate_comparisons(tables).comparisons
    judged = tables.comparisons[["comparison_id"]].merge(validated, "left", "comparison_id")
    usable = (judged["valid"].fillna(value=False) & judged["status"].notna()).to_numpy(bool)
    chosen = tables.comparisons[usable].reset_index(drop=True)
    labelled = ComparisonTables(tables.results, chosen, tables.labels)
    return labelled, (judged.loc[usable, "status"] == "fail").to_numpy(np.int64)


def feature_frames(tables: ComparisonTables, features: FeatureSet = "extended") -> Mapping[str, pd.DataFrame]:
    """Return the training tables of the valid labelled comparisons by name."""
    return training_tables(tables, validate_comparisons(tables).comparisons, features)


def examples_of(
    frames: Mapping[str, pd.DataFrame], features: FeatureSet = "extended"
) -> tuple[FeatureTable, Examples]:
    """Return the features, and their examples with flags of the rows below the minimum effect size."""
    least = load(Comparisons).section.decide.min_effect_size or 0.0
    table, bare = (FeatureTable(frames[name], model_columns(features), "") for name in ("features", "bare"))
    changes = (frames[name]["worst_change"].to_numpy(np.float64) for name in ("changes", "bare"))
    below, bare_below = (below_min_effect(change, least) for change in changes)
    return table, replace(table.examples, below=below, bare=replace(bare.examples, below=bare_below))


def champion_name() -> str:
    return str(written(FamilyPaths("comparisons").metrics, "evaluate")["champion"])


def verdict_figures(model: ReadyModel, sides: Sides, failed: NDArray[np.bool_]) -> dict[str, float | Floats]:
    """Return the model's probabilities, its scores, and rates of verdicts with `unsure`, by name."""
    probability, verdicts = model.predict_uncleaned(sides), model.decide_verdicts(sides)
    return {
        **vars(score_verdicts(failed, probability >= model.card.threshold, probability)),
        "probability": probability,
        "unsure": (verdicts == "unsure").mean(),
        "missed": (verdicts[failed] == "pass").mean(),
        "alarms": (verdicts[~failed] == "fail").mean(),
    }


def main(path: Path = SAP_HANA) -> None:
    tables, y = read_labelled(path)
    sides, champion, rows = Sides.from_tables(tables), champion_name(), []
    for folder in sorted(FamilyPaths("comparisons").models.iterdir()):
        figures = verdict_figures(ReadyModel.read(folder), sides, y == 1)
        figures["best"] = best_cut(y, figures["probability"]).balanced_accuracy
        names = ("balanced_accuracy", "false_negative_rate", "false_positive_rate", "average_precision")
        cells = [figures[name] for name in (*names, "best", "unsure", "missed", "alarms")]
        rows.append((f"{folder.name} (champion)" if folder.name == champion else folder.name, *cells))
    rows.sort(key=lambda cells: -cells[1])
    notes = (
        f"Data set: {path.name}, {len(y)} comparisons, {y.sum()} fails.",
        f"Models, thresholds and cuts come from data/raw/measured alone, seed {SEED}.",
        "How the measurement is made and a champion is chosen was decided with a view of these labels.",
    )
    title = f"The shipped models on {path.name}, of which they know no label"
    Table(title, COLUMNS, rows, notes).publish(f"{path.name}-held-out")


if __name__ == "__main__":
    typer.run(main)
