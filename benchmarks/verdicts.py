"""Models beside rules on the data set that the pipeline evaluated last.

Run it with ``python -m benchmarks.verdicts`` after ``dvc repro`` or ``dvc exp run``; it writes
``docs/results/comparisons-<data set>.md`` from ``reports/comparisons/metrics.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.table import Table

POOLED = (
    "Figures are pooled over the held-out folds, but for average precision: it is the mean over the folds, "
    "whose probabilities have scales of their own."
)
METRICS = Path("reports/comparisons/metrics.json")
COLUMNS = (
    "judge", "kind", "balanced accuracy", "± over folds", "missed fails", "false alarms",
    "precision", "recall", "F1", "average precision", "accuracy",
)  # fmt: skip


def table(metrics: dict[str, Any], split: str, command: str) -> Table:
    """Make the table of one way to split, best first.

    Parameters
    ----------
    metrics : dict
        The content of metrics.json.
    split : str
        "grouped" or "stratified".
    command : str
        What makes the page.
    """
    data, folds = metrics["data"], metrics["splits"][split]
    entries = folds["entries"]
    names = sorted(entries, key=lambda name: (-entries[name]["balanced_accuracy"]["pooled"], name))
    return Table(
        f"{Path(data['path']).name}, {folds['scheme']}",
        command,
        COLUMNS,
        [row_of(name, entries[name]) for name in names],
        _notes(metrics),
    )


def _notes(metrics: dict[str, Any]) -> list[str]:
    data = metrics["data"]
    source = (
        f"Data set: {data['format']}, {data['comparisons']} comparisons of {data['operations']} operations"
    )
    setting = f"digest {data['digest'][:12]}; features: {metrics['features']}; seed {metrics['seed']}."
    return [
        f"{source}, {data['fails']} fails, {setting}",
        POOLED,
        "Models have parameters and thresholds from inside each training part, rules their fixed setting.",
        f"Best model on the grouped folds: {metrics['champion']}.",
    ]


def row_of(name: str, entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of `COLUMNS` of an entry of metrics.json."""

    def told(metric: str, form: str, over: str = "pooled") -> str:
        value = entry[metric][over]
        return "" if value is None else format(value, form)

    return (
        name,
        entry["kind"],
        told("balanced_accuracy", ".3f"),
        f"{entry['balanced_accuracy']['std']:.3f}",
        told("false_negative_rate", ".1%"),
        told("false_positive_rate", ".1%"),
        *(told(metric, ".3f") for metric in ("precision", "recall", "f1")),
        told("average_precision", ".3f", over="mean"),
        told("accuracy", ".3f"),
    )


def main() -> None:
    """Print both tables and write the page."""
    metrics = json.loads(METRICS.read_text(encoding="utf-8"))
    data = metrics["data"]
    run = "dvc repro"
    if data["format"] != "tables":
        ingest = {"format": data["format"], "path": data["path"], "keep_going": "true"}
        run = " ".join(
            ["dvc exp run", *(f"-S comparisons.ingest.{key}={value}" for key, value in ingest.items())]
        )
    command = f"{run} && python -m benchmarks.verdicts"
    tables = [table(metrics, split, command) for split in ("grouped", "stratified")]
    for each in tables:
        each.show()
    from data.tables.files import write_text

    page = Path("docs/results") / f"comparisons-{Path(data['path']).name}.md"
    write_text(page, "\n".join(each.markdown() for each in tables))


if __name__ == "__main__":
    main()
