"""The commands ``perfjudge experiments ...``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from serving.options import AsJson, Output

State = Annotated[
    str,
    typer.Argument(
        help="A commit, a DVC experiment, models:/NAME/VERSION, or `workspace` (the current files)."
    ),
]


def diff(
    before: State,
    after: State = "workspace",
    shown: Annotated[
        Literal["text", "html", "json"] | None,
        typer.Option("--format", help="Output format. Default: by the suffix of -o, else text."),
    ] = None,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Compare parameters, data, scores on the same held-out cases, and verdicts of two states."""
    from serving.answering import form_of
    from serving.experiments.diff import write_difference

    form = form_of("json" if as_json else shown, output, ("text", "html", "json"))
    return write_difference(before, after, form, output)


def add_commands(app: typer.Typer) -> None:
    """Add ``perfjudge experiments diff`` to the command line."""
    experiments = typer.Typer(
        name="experiments",
        help="Compare commits, DVC experiments or registered models.",
        no_args_is_help=True,
    )
    experiments.command("diff")(diff)
    app.add_typer(experiments)
