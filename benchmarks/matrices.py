"""The engine of matrices on the last evaluated data set, compared with its paper and the reference methods.

Run it with ``python -m benchmarks.matrices`` after ``dvc repro`` or ``dvc exp run``; it writes
``docs/results/matrices-<data set>.md`` from ``reports/matrices``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.table import Table, publish
from benchmarks.verdicts import COLUMNS, POOLED, read_metrics, score_rows
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
FIGURES = ("runs", "invalid", "balanced_accuracy", "false_positive", "false_negative")
#: Columns about the validity of runs, compared with the analysts' flags.
VALIDITY = {
    "judge": "", "runs": "d", "invalid": "d", "balanced accuracy": ".3f", "valid rejected": "d",
    "invalid accepted": "d",
}  # fmt: skip


def verdict_table(metrics: dict[str, Any]) -> Table:
    """Return the table of verdicts on pairs by models and reference methods, best first."""
    content, data = metrics["splits"][SPLIT], metrics["data"]
    entries = content["entries"] | {"best of the other folds": metrics["selected"]}
    served = {"champion behind rules and validity tree": metrics["served"]}
    counts = (f"{count} {name.replace('_', ' ')}" for name, count in data.items() if isinstance(count, int))
    source = f"Data set: {data['format']}, {', '.join(counts)}, digest {data['digest'][:12]}"
    trials = f"{metrics['trials']} trials of every search, inside each training part."
    notes = [
        f"{source}; seed {metrics['seed']}; {trials}",
        POOLED,
        "Opponents have the threshold that is best on these very pairs.",
        "The champion is the best of many on these folds; the best of the other folds is not.",
        f"{metrics['served']['invalid']} pairs are called invalid when asked without flags: no alarm.",
        f"Champion: {metrics['champion']}.",
    ]
    rows = score_rows(entries) + score_rows(served)
    return Table(f"Verdicts on pairs, {content['scheme']}", COLUMNS, rows, notes)


def held_out_cause_table(metrics: dict[str, Any]) -> Iterator[Table]:
    """Yield the same table for held-out causes, if the data set names causes."""
    if CAUSES in metrics["splits"]:
        content = metrics["splits"][CAUSES]
        split_note = "What is asked has other causes, and is of other test cases, than what was learned from."
        notes = [split_note, POOLED, f"Champion: {metrics['champion']}."]
        title = f"Verdicts on pairs, {content['scheme']}"
        yield Table(title, COLUMNS, score_rows(content["entries"]), notes)


def paper_tables(tables: pd.DataFrame) -> Iterator[Table]:
    """Yield tables 2 and 4 to 8 of the paper."""
    for number, rows in tables.groupby("table", sort=True):
        cells = [(row["row"], *_count_cells(row)) for _, row in rows.iterrows()]
        notes = [f"Scheme: {'; '.join(rows['scheme'].drop_duplicates())}."]
        yield Table(f"Table {number} of the analysis engine paper", {"classifier": ""} | COUNTS, cells, notes)


def ablation_tables(table: pd.DataFrame) -> Iterator[Table]:
    """Yield the tables of the ablation: remedies added, remedies left out, and groupings."""
    for part, rows in table.groupby("part", sort=True):
        cells = [(row["model"], row["remedy"], *_count_cells(row)) for _, row in rows.iterrows()]
        yield Table(f"Remedies: {part}", {"model": "", "remedy": ""} | COUNTS, cells)


def curve_table(table: pd.DataFrame) -> Table:
    """Return the table of the paper's figures 4 to 6."""
    rows = table[["figure", "model", "grouping", "x", "balanced_accuracy", "spread"]]
    notes = [
        "4: cost ratio; 5: normal training vectors per abnormal one; 6: components, the last all metrics.",
        f"{table['folds'].iloc[0]} folds of whole test cases; nothing else is tuned.",
    ]
    cells = list(rows.itertuples(index=False, name=None))
    return Table("Figures 4 to 6 of the analysis engine paper", CURVES, cells, notes)


def _count_cells(row: pd.Series) -> tuple[object, ...]:
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
    runs = [(name, *(counts[figure] for figure in FIGURES)) for name, counts in metrics["validity"].items()]
    tables = [
        verdict_table(metrics),
        *held_out_cause_table(metrics),
        *paper_tables(pd.read_parquet(evaluated / "tables.parquet")),
        *ablation_tables(pd.read_parquet(evaluated / "ablation.parquet")),
        curve_table(pd.read_parquet(evaluated / "curves.parquet")),
    ]
    if runs:
        tables.append(Table("Validity of runs, held-out test cases", VALIDITY, runs))
    publish(f"matrices-{Path(metrics['data']['path']).name}", tables)


if __name__ == "__main__":
    main()
