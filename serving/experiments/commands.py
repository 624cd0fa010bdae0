"""The commands ``perfjudge experiments ...`` and ``perfjudge retrain``."""

from __future__ import annotations

from pathlib import Path
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
    """Compare two commits, experiments or registered models. Show parameters, data, scores and verdicts."""
    from serving.answering import form_of
    from serving.experiments.diff import write_difference

    form = form_of(shown, output, ("text", "html", "json"), as_json=as_json)
    return write_difference(before, after, form, output)


def show(
    family: Annotated[
        Literal["comparisons", "matrices", "corun", "fingerprints"],
        typer.Argument(help="Model family whose main score and parameters are shown."),
    ] = "comparisons",
) -> int:
    """List DVC experiments with the main score of a model family. Show parameters that differ, too."""
    import subprocess
    import sys
    from importlib import import_module

    # a missing DVC is reported with the extra that installs it
    import_module("dvc")
    # without dependencies, and figures that several families have
    columns = ["--only-changed", "--drop", ".*/|Created", "--keep", f".*{family}.*(balanced|mape)"]
    return subprocess.run([sys.executable, "-m", "dvc", "exp", "show", *columns], check=False).returncode


def retrain(
    stages: Annotated[
        list[str] | None,
        typer.Argument(metavar="STAGE", help="Stages (evaluate@comparisons) or families. Default: all."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only list the stages, their last durations, and the files that would change."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
) -> int:
    """Run the DVC stages whose inputs changed. They are listed before they run.

    For a STAGE, the earlier stages that it needs are run, too. The exit code is 2 if a stage fails.
    """
    from serving.experiments.retraining import retrain as run_stages

    if as_json and not dry_run:
        raise typer.BadParameter("--json is only for --dry-run")
    return run_stages(Path.cwd(), stages or [], dry_run=dry_run, as_json=as_json)


def add_commands(app: typer.Typer) -> None:
    """Add ``perfjudge experiments diff`` and ``show``, and ``perfjudge retrain``, to the command line."""
    app.command()(retrain)
    about = "Compare commits, DVC experiments or registered models."
    experiments = typer.Typer(name="experiments", help=about, no_args_is_help=True)
    experiments.command("diff")(diff)
    experiments.command("show")(show)
    app.add_typer(experiments)
