"""The engine of matrices on the last evaluated data set, beside its paper and the reference methods."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.table import Table, publish, read_metrics
from benchmarks.verdicts import COLUMNS, POOLED, score_rows
from data.paths import FamilyPaths
from training.matrices.promote import CAUSES, SPLIT

COUNTS = {
    "vectors: balanced accuracy": "", "FP": ".0f", "FN": ".0f", "missed": ".1%",
    "pairs: balanced accuracy": "", "pair FP": ".0f", "pair FN": ".0f",
    "the paper: balanced accuracy": ".2f", "the paper: FP": ".0f", "the paper: FN": ".0f",
}  # fmt: skip
CURVES = {
    "figure": "d", "model": "", "groups": "", "x": ".3g", "balanced accuracy of vectors": ".3f",
    "± over folds": ".3f",
}  # fmt: skip
#: Columns about the validity of runs, compared with the analysts' flags.
VALIDITY = {
    "judge": "", "runs": "d", "invalid": "d", "balanced accuracy": ".3f", "valid rejected": "d",
    "invalid accepted": "d",
}  # fmt: skip


def count_cells(row: pd.Series) -> tuple[object, ...]:
    """Return the values of `COUNTS` of a row of the evaluation."""
    return (
        f"{row['balanced_accuracy']:.3f} ± {row['spread']:.3f}",
        *row[["false_positive", "false_negative"]],
        row["false_negative"] / row["abnormal"],
        f"{row['pair_balanced_accuracy']:.3f} ± {row['pair_spread']:.3f}",
        *row[["pair_false_positive", "pair_false_negative"]],
        *row[["seed_balanced_accuracy", "seed_false_positive", "seed_false_negative"]],
    )


def main() -> None:
    metrics, evaluated = read_metrics("matrices"), FamilyPaths("matrices").evaluated
    files = (evaluated / f"{name}.parquet" for name in ("tables", "ablation", "curves"))
    paper, ablation, curves = map(pd.read_parquet, files)
    content, data, served = metrics["splits"][SPLIT], metrics["data"], metrics["served"]
    entries = content["entries"] | {"best of the other folds": metrics["selected"]}
    counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in data.items() if isinstance(n, int))
    notes = f"""
    - Data set: {data["format"]}, {counts}, digest {data["digest"][:12]}; seed {metrics["seed"]};
      {metrics["trials"]} trials of every search, inside each training part.
    - {POOLED}
    - Opponents have the threshold that is best on these very pairs.
    - The champion is the best of many on these folds; the best of the other folds is not.
    - {served["invalid"]} pairs are called invalid when asked without flags: no alarm.
    - Champion: {metrics["champion"]}.
    """
    rows = score_rows(entries) + score_rows({"champion behind rules and validity tree": served})
    tables = [Table(f"Verdicts on pairs, {content['scheme']}", COLUMNS, rows, notes)]
    if CAUSES in metrics["splits"]:
        content = metrics["splits"][CAUSES]
        split_note = "What is asked has other causes, and is of other test cases, than what was learned from."
        cause_notes = [split_note, POOLED, f"Champion: {metrics['champion']}."]
        title = f"Verdicts on pairs, {content['scheme']}"
        tables.append(Table(title, COLUMNS, score_rows(content["entries"]), cause_notes))
    for number, table in paper.groupby("table", sort=True):
        title = f"Table {number} of the analysis engine paper"
        cells = [(row["row"], *count_cells(row)) for _, row in table.iterrows()]
        scheme = [f"Scheme: {'; '.join(table['scheme'].drop_duplicates())}."]
        tables.append(Table(title, {"classifier": ""} | COUNTS, cells, scheme))
    for part, table in ablation.groupby("part", sort=True):
        cells = [(row["model"], row["remedy"], *count_cells(row)) for _, row in table.iterrows()]
        tables.append(Table(f"Remedies: {part}", {"model": "", "remedy": ""} | COUNTS, cells))
    points = curves[["figure", "model", "grouping", "x", "balanced_accuracy", "spread"]]
    curve_notes = [
        "4: cost ratio; 5: normal training vectors per abnormal one; 6: components, the last all metrics.",
        f"{curves['folds'].iloc[0]} folds of whole test cases; nothing else is tuned.",
    ]
    title = "Figures 4 to 6 of the analysis engine paper"
    tables.append(Table(title, CURVES, list(points.itertuples(index=False, name=None)), curve_notes))
    figures = ("runs", "invalid", "balanced_accuracy", "false_positive", "false_negative")
    runs = [(name, *(counts[figure] for figure in figures)) for name, counts in metrics["validity"].items()]
    if runs:
        tables.append(Table("Validity of runs, held-out test cases", VALIDITY, runs))
    publish(f"matrices-{Path(data['path']).name}", tables)


if __name__ == "__main__":
    main()
