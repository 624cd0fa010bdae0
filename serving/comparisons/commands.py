"""The commands about comparisons."""

from __future__ import annotations

import typer

from serving.comparisons.compare.commands import compare
from serving.comparisons.labels.commands import group as labels
from serving.comparisons.timelines.commands import timelines


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
    app.add_typer(labels, name="labels")
    app.command()(timelines)
