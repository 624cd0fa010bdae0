"""The engine of matrices on the data set that the pipeline evaluated last, beside seed 001 and opponents.

Run it with ``python -m benchmarks.matrices`` after ``dvc repro`` or ``dvc exp run``; it writes
``docs/results/matrices-<data set>.md`` from ``reports/matrices``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.table import Table
from benchmarks.verdicts import COLUMNS, POOLED, row_of
from data.tables.files import write_text
from training.matrices.promote import SPLIT

REPORTS = Path("reports/matrices")
COUNTS = (
    "vectors: balanced accuracy", "FP", "FN", "missed", "pairs: balanced accuracy", "pair FP", "pair FN",
    "seed 001: balanced accuracy", "FP", "FN",
)  # fmt: skip


def judges(metrics: dict[str, Any], command: str) -> Table:
    """Make the table of models and opponents, of pairs, best first."""
    content = metrics["splits"][SPLIT]
    entries = content["entries"] | {"best of the other folds": metrics["selected"]}
    names = sorted(entries, key=lambda name: (-entries[name]["balanced_accuracy"]["pooled"], name))
    rows = [row_of(name, entries[name]) for name in names]
    served = row_of("champion behind rules and validity tree", metrics["served"])
    return Table(
        f"Verdicts on pairs, {content['scheme']}", command, COLUMNS, [*rows, served], _notes(metrics)
    )


def _notes(metrics: dict[str, Any]) -> list[str]:
    data = metrics["data"]
    counts = ", ".join(
        f"{data[name]} {name.replace('_', ' ')}" for name in data if isinstance(data[name], int)
    )
    return [
        (
            f"Data set: {data['format']}, {counts}, digest {data['digest'][:12]}; seed {metrics['seed']}; "
            f"{metrics['trials']} trials of every search, inside each training part."
        ),
        POOLED,
        "Opponents have the threshold that is best on these very pairs.",
        "The champion is the best of many on these folds; the best of the other folds is not.",
        f"{metrics['served']['invalid']} pairs are called invalid when asked without flags: no alarm.",
        f"Champion: {metrics['champion']}.",
    ]


def seed_tables(tables: pd.DataFrame, command: str) -> Iterator[Table]:
    """Yield the seed's tables 2 and 4 to 8."""
    for number, rows in tables.groupby("table", sort=True):
        cells = [(row["row"], *_counts(row)) for _, row in rows.iterrows()]
        scheme = "; ".join(rows["scheme"].drop_duplicates())
        title = f"Table {number} of seed 001"
        yield Table(title, command, ("classifier", *COUNTS), cells, [f"Scheme: {scheme}."])


def ablation(table: pd.DataFrame, command: str) -> Iterator[Table]:
    """Yield the ablation: remedies added, left out, and groupings."""
    for part, rows in table.groupby("part", sort=True):
        cells = [(row["model"], row["remedy"], *_counts(row)) for _, row in rows.iterrows()]
        yield Table(f"Remedies: {part}", command, ("model", "remedy", *COUNTS), cells)


def curves(table: pd.DataFrame, command: str) -> Table:
    """Make the table of figures 4 to 6."""
    rows = [
        (
            str(row["figure"]),
            row["model"],
            row["grouping"],
            f"{row['x']:.3g}",
            f"{row['balanced_accuracy']:.3f}",
            f"{row['spread']:.3f}",
        )
        for _, row in table.iterrows()
    ]
    columns = ("figure", "model", "groups", "x", "balanced accuracy of vectors", "± over folds")
    notes = [
        "4: cost ratio; 5: normal training vectors per abnormal one; 6: components, the last all metrics.",
        f"{table['folds'].iloc[0]} folds of whole test cases; nothing else is tuned.",
    ]
    return Table("Figures 4 to 6 of seed 001", command, columns, rows, notes)


def validity(metrics: dict[str, Any], command: str) -> Table:
    """Make the table of rules and validity tree against the analysts' flags, of runs."""
    rows = [
        (
            name,
            f"{found['runs']}",
            f"{found['invalid']}",
            f"{found['balanced_accuracy']:.3f}",
            f"{found['false_positive']}",
            f"{found['false_negative']}",
        )
        for name, found in metrics["validity"].items()
    ]
    columns = ("judge", "runs", "invalid", "balanced accuracy", "valid rejected", "invalid accepted")
    return Table("Validity of runs, held-out test cases", command, columns, rows)


def _counts(row: pd.Series) -> tuple[str, ...]:
    def number(name: str, form: str) -> str:
        return "" if pd.isna(row[name]) else format(row[name], form)

    return (
        f"{row['balanced_accuracy']:.3f} ± {row['spread']:.3f}",
        number("false_positive", ".0f"),
        number("false_negative", ".0f"),
        f"{row['false_negative'] / row['abnormal']:.1%}",
        f"{row['pair_balanced_accuracy']:.3f} ± {row['pair_spread']:.3f}",
        number("pair_false_positive", ".0f"),
        number("pair_false_negative", ".0f"),
        number("seed_balanced_accuracy", ".2f"),
        number("seed_false_positive", ".0f"),
        number("seed_false_negative", ".0f"),
    )


def main() -> None:
    """Print all tables and write the page."""
    metrics = json.loads((REPORTS / "metrics.json").read_text(encoding="utf-8"))
    frames = {
        name: pd.read_parquet(REPORTS / f"evaluated/{name}.parquet")
        for name in ("tables", "ablation", "curves")
    }
    data, run = metrics["data"], "dvc repro"
    if data["format"] != "tables":
        run = f"dvc exp run -S matrices.ingest.format={data['format']} -S matrices.ingest.path={data['path']}"
    command = f"{run} && python -m benchmarks.matrices"
    found = [
        judges(metrics, command),
        *seed_tables(frames["tables"], command),
        *ablation(frames["ablation"], command),
        curves(frames["curves"], command),
        *([validity(metrics, command)] if metrics["validity"] else []),
    ]
    for table in found:
        table.show()
    page = Path("docs/results") / f"matrices-{Path(data['path']).name}.md"
    write_text(page, "\n".join(table.markdown() for table in found))


if __name__ == "__main__":
    main()
