"""The commands ``perfjudge matrices``, which only pass on what the user said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(help="Matrices of raw metrics that are larger than memory.", no_args_is_help=True)


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(group, name="matrices")


@group.callback()
def matrices() -> None:
    """Matrices of raw metrics that are larger than memory."""


@group.command("fit")
def matrices_fit(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A Parquet table of flagged runs, or a directory of them."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the model goes.")],
    model: Annotated[str, typer.Option("--classifier", help="Which classifier learns.")] = "logistic",
    trials: Annotated[int | None, typer.Option("--trials", min=0, help="Of the search.")] = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Where what is between lies. Default: beside the model."),
    ] = None,
) -> int:
    """Learn from any number of runs, a piece at a time; `judge --model DIR` then asks the model."""
    from serving.matrices.fitting import fit

    return fit(source, output, model, trials, work)
