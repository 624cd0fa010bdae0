"""Answers about matrices of raw metrics, and the commands ``perfjudge matrices``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.supply import FamilyPlugin, Importing, Judging, Registered, deferred, named

Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PATTERN", help="Of matrices: only the workloads of such names."),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="PATTERN", help="Of matrices: no workloads of such names."),
]
group = typer.Typer(help="Matrices of raw metrics that are larger than memory.", no_args_is_help=True)
MODEL = Registered("matrices", "Judges matrices.")
SUPPLY = FamilyPlugin(
    page=deferred("serving.matrices.page.page"),
    importing=Importing(
        "matrices",
        deferred("serving.matrices.command.imported"),
        lambda: named("data.matrices.formats.FORMATS"),
        {"only": Only, "without": Without},
    ),
    judging=Judging(
        "matrices",
        deferred("serving.matrices.command.judge_matrices"),
        recognised=deferred("serving.matrices.request.recognised"),
    ),
    models=(MODEL,),
    doors=deferred("serving.matrices.request.doors", MODEL),
    commands=lambda app: app.add_typer(group, name="matrices"),
)


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
    from serving.matrices.command import fit

    return fit(source, output, model, trials, work)
