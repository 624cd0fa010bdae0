"""Plugin of the family matrices, and the commands ``perfjudge matrices``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.supply import FamilyPlugin, Importing, Judging, Registered, deferred, named

Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PATTERN", help="Only workloads with such names (matrices)."),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="PATTERN", help="No workloads with such names (matrices)."),
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
        typer.Argument(metavar="SOURCE", help="Parquet table of flagged runs, or a directory of tables."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory of the model.")],
    model: Annotated[str, typer.Option("--classifier", help="Name of the classifier.")] = "logistic",
    trials: Annotated[int | None, typer.Option("--trials", min=0, help="Trials of the search.")] = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Directory of temporary files (default: that of DIR)."),
    ] = None,
) -> int:
    """Train on any number of runs, in chunks; `judge --model DIR` uses the model."""
    from serving.matrices.command import fit

    return fit(source, output, model, trials, work)
