"""Plugin of the family matrices, and the commands ``perfjudge matrices``."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

import typer

from serving.plugins import FamilyPlugin, Importing, Judging, Registered, deferred_function

Include = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Shell pattern of workloads to read, such as 'sort *'; may be repeated (matrices only).",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN", help="Shell pattern of workloads to skip; may be repeated (matrices only)."
    ),
]
group = typer.Typer(help="Train on matrices (counters of runs) larger than memory.", no_args_is_help=True)
MODEL = Registered("matrices", "Model that judges matrices.")
PLUGIN = FamilyPlugin(
    page=deferred_function("serving.matrices.page:page"),
    importing=Importing(
        "matrices",
        deferred_function("serving.matrices.command:imported"),
        lambda: resolve_name("data.matrices.formats:FORMATS"),
        {"include": Include, "exclude": Exclude},
    ),
    judging=Judging(
        "matrices",
        deferred_function("serving.matrices.command:judge_matrices"),
        recognised=deferred_function("data.matrices.formats:recognised"),
    ),
    models=(MODEL,),
    endpoints=deferred_function("serving.matrices.request:matrix_endpoints", MODEL),
    commands=lambda app: app.add_typer(group, name="matrices"),
)


@group.callback()
def matrices() -> None:
    """Train on matrices (counters of runs) larger than memory."""


@group.command("fit")
def matrices_fit(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Parquet table of labelled runs, or a directory of such tables."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Output directory of the model.")
    ],
    model: Annotated[
        str, typer.Option("--classifier", metavar="NAME", help="Name of the classifier.")
    ] = "logistic",
    trials: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Number of hyperparameter trials. Default: matrices.evaluate.n_trials of params.yaml.",
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of temporary files. Default: the parent of --output."),
    ] = None,
) -> int:
    """Train a model on runs labelled normal or abnormal, read in chunks. `judge --model DIR` uses it."""
    from serving.matrices.command import fit_model

    return fit_model(source, output, model, trials, work)
