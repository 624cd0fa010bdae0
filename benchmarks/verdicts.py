"""Models compared with rules on the data set that the pipeline evaluated last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.table import Table, publish, read_metrics
from serving.reports.rendering import reword_text

POOLED = (
    "Figures are pooled over the held-out folds, but for average precision: it is the mean over the folds, "
    "whose probabilities have scales of their own."
)
#: By heading: the format, the name in metrics.json, and the aggregate that is shown.
SCORES = {
    "balanced accuracy": (".3f", "balanced_accuracy", "pooled"),
    "± over folds": (".3f", "balanced_accuracy", "std"),
    "missed fails": (".1%", "false_negative_rate", "pooled"),
    "false alarms": (".1%", "false_positive_rate", "pooled"),
    "precision": (".3f", "precision", "pooled"),
    "recall": (".3f", "recall", "pooled"),
    "F1": (".3f", "f1", "pooled"),
    "average precision": (".3f", "average_precision", "mean"),
    "accuracy": (".3f", "accuracy", "pooled"),
}
COLUMNS = {"judge": "", "kind": ""} | {name: form for name, (form, _, _) in SCORES.items()}


def score_rows(entries: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the values of `COLUMNS` of entries of metrics.json, best first."""
    named = sorted(entries.items(), key=lambda item: (-item[1]["balanced_accuracy"]["pooled"], item[0]))
    cells = [[entry[score][over] for _, score, over in SCORES.values()] for _, entry in named]
    return [(name, entry["kind"], *row) for (name, entry), row in zip(named, cells, strict=True)]


def main() -> None:
    metrics = read_metrics("comparisons")
    data, name = metrics["data"], Path(metrics["data"]["path"]).name
    notes = f"""
    - Data set: {data["format"]}, {data["comparisons"]} comparisons of {data["operations"]} operations,
      {data["fails"]} fails, digest {data["digest"][:12]}; features: {metrics["features"]}; seed
      {metrics["seed"]}.
    - {POOLED}
    - Models have parameters and thresholds from inside each training part, rules their fixed setting.
    - Best model on the grouped folds: {metrics["champion"]}.
    """
    splits = [metrics["splits"][name] for name in ("grouped", "stratified")]
    tables = [
        Table(f"{name}, {reword_text(split['scheme'])}", COLUMNS, score_rows(split["entries"]), notes)
        for split in splits
    ]
    publish(f"comparisons-{name}", tables)


if __name__ == "__main__":
    main()
