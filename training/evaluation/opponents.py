"""The table of models and of what would do without learning, on the same folds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def show(metrics: dict[str, Any], outcome: str, split: str = "grouped", cases: str = "comparisons") -> None:
    """Print the table, and who is champion."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(opponents(metrics, split, cases))
    console.print(outcome, highlight=False, markup=False)


def opponents(metrics: dict[str, Any], split: str = "grouped", cases: str = "comparisons") -> Table:
    """Make the table of one split from the content of metrics.json; best first.

    Parameters
    ----------
    metrics : dict
    split : str
    cases : str
        What is judged: their number stands in ``data`` under this name.
    """
    from rich.table import Table

    content, data = metrics["splits"][split], metrics["data"]
    table = Table(
        title=f"{Path(data['path']).name}: {data[cases]} {cases}, {data['fails']} fails; "
        f"{content['scheme']}, seed {metrics['seed']}",
        title_justify="left",
        caption="Average precision is the mean over folds; the other figures count all folds' verdicts.",
        caption_justify="left",
    )
    for name in ("judge", "kind"):
        table.add_column(name, no_wrap=True)
    for name in ("balanced accuracy", "missed fails", "false alarms", "average precision"):
        table.add_column(name, justify="right", no_wrap=True)
    entries = content["entries"]
    for name in sorted(entries, key=lambda name: (-entries[name]["balanced_accuracy"]["pooled"], name)):
        style = "bold" if name == metrics["champion"] else ""
        table.add_row(name, *_cells(entries[name]), style=style)
    return table


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    accuracy, ranking = entry["balanced_accuracy"], entry["average_precision"]["mean"]
    return (
        entry["kind"],
        f"{accuracy['pooled']:.3f} ± {accuracy['std']:.3f}",
        f"{entry['false_negative_rate']['pooled']:.1%}",
        f"{entry['false_positive_rate']['pooled']:.1%}",
        "" if ranking is None else f"{ranking:.3f}",
    )
