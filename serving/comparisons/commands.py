"""Commands and options about comparisons, which only pass on what the user said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.comparisons.labels.commands import group as labels
from serving.comparisons.promises.asked import CostsOption, FailOnUnsure, FalseAlarms, Missed
from serving.comparisons.timelines.commands import timelines
from serving.options import AsJson, Better, FailOnRegression, Model, Output, Shown


def _share(text: str) -> float:
    """Return a percentage as a share; 0 for "none"."""
    try:
        share = 0.0 if text == "none" else float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise typer.BadParameter(f"{text!r} is no percentage from 0 to below 100, and not none")
    return share


Floor = Annotated[
    float | None,
    typer.Option(
        "--floor",
        metavar="PERCENT",
        parser=_share,
        help="The smallest change of a median that may be called a regression; none = any."
        " Default: the model's own, 0.5 unless it was trained with another.",
    ),
]
Assumed = Annotated[
    Better | None,
    typer.Option("--better", help="Which values are better, where the input does not say. Default: higher."),
]

From = Annotated[
    str | None,
    typer.Option("--from", metavar="FORMAT", help="The format of the input. Default: what its content says."),
]
Retrospective = Annotated[
    bool | None,
    typer.Option(
        "--retrospective",
        help="Judge by the champion of those models that look at versions after the target, too.",
    ),
]


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
    app.add_typer(labels, name="labels")
    app.command()(timelines)


def compare(  # noqa: PLR0917 - typer hands options over by name
    baseline: Annotated[Path, typer.Argument(help="The results before.")],
    target: Annotated[Path, typer.Argument(help="The results after.")],
    model: Model = None,
    shown: Shown = "table",
    fail_on_regression: FailOnRegression = False,
    fail_on_missing: Annotated[
        bool, typer.Option("--fail-on-missing", help="Exit with 1 if only one file has something.")
    ] = False,
    fail_on_unsure: FailOnUnsure = None,
    better: Assumed = None,
    from_: From = None,
    floor: Floor = None,
    missed: Missed = None,
    false_alarms: FalseAlarms = None,
    costs: CostsOption = None,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Judge two result files at once."""
    from serving.answering import Wanted
    from serving.comparisons.command import judge_pair

    wanted = Wanted("json" if as_json else shown, output, fail_on_regression)
    return judge_pair(
        baseline,
        target,
        model,
        wanted,
        fail_on_missing=fail_on_missing,
        fail_on_unsure=fail_on_unsure,
        better=better,
        from_=from_,
        floor=floor,
        missed=missed,
        false_alarms=false_alarms,
        costs=costs,
    )
