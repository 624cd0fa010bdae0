"""The command ``perfjudge compare``, which only passes on what the user said."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from serving.comparisons.options import Assumed, Floor, From, share
from serving.comparisons.promises import CostsOption, FailOnUnsure, FalseAlarms, Missed
from serving.options import AsJson, FailOnRegression, Format, Model, Output, Shown

if TYPE_CHECKING:
    from serving.comparisons.compare.command import ComparedPaths
    from serving.comparisons.compare.confirming import Confirming

_FILES = "Files"
Sides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[BASELINE] [TARGET] [-- COMMAND...]",
        help="The results before and after: a file, or a directory of runs. Then, for --confirm, what"
        " measures the target again, to {output}; PERFJUDGE_OPERATIONS names the operations in doubt.",
    ),
]
Baselines = Annotated[
    list[Path] | None,
    typer.Option("--base", metavar="FILE", help="Results before, in place of BASELINE; may be repeated."),
]
TargetRuns = Annotated[
    list[Path] | None,
    typer.Option("--target", metavar="FILE", help="Results after, in place of TARGET; may be repeated."),
]
Earlier = Annotated[
    list[Path] | None,
    typer.Option(
        "--history",
        metavar="DIR",
        help="Earlier runs of the baseline's branch, in the order of their names: they tell what runs differ"
        " by.",
    ),
]
Matched = Annotated[
    list[str] | None,
    typer.Option(
        "--match",
        metavar="BASE=NEW",
        help="Compare operation NEW of the target with operation BASE of the baseline; may be repeated."
        " Without TARGET, both are of the one file.",
    ),
]
RunsDiffer = Annotated[
    float,
    typer.Option(
        "--runs-differ",
        metavar="PERCENT",
        parser=share,
        help="By how much runs of one build scatter (a standard deviation) where nothing tells; none: not at"
        " all.",
    ),
]
Times = Annotated[
    int,
    typer.Option("--confirm", min=0, max=100, metavar="N", help="Run COMMAND so often for what is in doubt."),
]
BaselineCommand = Annotated[
    str | None,
    typer.Option(
        "--confirm-base", metavar="COMMAND", help="Measures the baseline again, in turn with COMMAND."
    ),
]
Patience = Annotated[
    float, typer.Option("--confirm-timeout", min=0.1, metavar="SECONDS", help="That one run may take.")
]
AcknowledgedOption = Annotated[
    Path | None,
    typer.Option(
        "--acknowledged",
        metavar="FILE",
        help="What people acknowledge, call unstable or accept. Default: .perfjudge.yaml, if it is there.",
    ),
]
Commit = Annotated[
    str | None,
    typer.Option("--commit", help="What was measured after. Default: what git has checked out."),
]
BaseCommit = Annotated[str | None, typer.Option("--base-commit", help="What was measured before.")]
Markdown = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Write a comment for a pull request there, too."),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML there, too.")]
JsonFile = Annotated[Path | None, typer.Option("--json-file", metavar="FILE", help="Write JSON there, too.")]
Annotate = Annotated[
    bool, typer.Option("--annotations", help="Write GitHub's annotations to standard error, too.")
]
Page = Annotated[
    bool, typer.Option("--step-summary", help="Add the comment to the page of GitHub's step, too.")
]
Title = Annotated[
    str, typer.Option("--name", help="Tells the comment from those of other comparisons of one request.")
]
FailOnMissing = Annotated[
    bool, typer.Option("--fail-on-missing", help="Exit with 1 if only one side has something.")
]


def compare(  # noqa: PLR0917 - typer hands options over by name
    sides: Sides = None,
    base: Baselines = None,
    target: TargetRuns = None,
    history: Earlier = None,
    match: Matched = None,
    model: Model = None,
    shown: Shown = None,
    fail_on_regression: FailOnRegression = False,
    fail_on_missing: FailOnMissing = False,
    fail_on_unsure: FailOnUnsure = None,
    runs_differ: RunsDiffer = "3",  # type: ignore[assignment] # as it is typed
    confirm: Times = 0,
    confirm_base: BaselineCommand = None,
    confirm_timeout: Patience = 3600.0,
    acknowledged: AcknowledgedOption = None,
    commit: Commit = None,
    base_commit: BaseCommit = None,
    from_: From = None,
    better: Assumed = None,
    floor: Floor = None,
    missed: Missed = None,
    false_alarms: FalseAlarms = None,
    costs: CostsOption = None,
    as_json: AsJson = False,
    output: Output = None,
    markdown: Markdown = None,
    junit: Junit = None,
    json_file: JsonFile = None,
    annotations: Annotate = False,
    step_summary: Page = False,
    name: Title = "",
) -> int:
    """Judge two results, several runs a side, or two operations of one file, at once."""
    from data.comparisons.params import Measure
    from serving.answering import form_of
    from serving.comparisons.compare.command import Comparing, Failing, Outputs, compare_runs
    from serving.comparisons.model import load

    form = form_of("json" if as_json else shown, output, get_args(Format))
    paths, command = _divided(sides or [], base, target, history)
    comparing = Comparing(
        load(model, floor=floor, missed=missed, false_alarms=false_alarms, costs=costs),
        Measure.model_validate({"better": better}),
        runs_differ,
        from_,
        _confirming(confirm, command, confirm_base, confirm_timeout),
        acknowledged,
        (base_commit, commit),
        match or (),
    )
    outputs = Outputs(form, output, markdown, junit, json_file, annotations, step_summary, name)
    failing = Failing(fail_on_regression, fail_on_missing, bool(fail_on_unsure))
    return compare_runs(comparing, paths, outputs, failing)


def _divided(
    given: list[str], base: list[Path] | None, target: list[Path] | None, history: list[Path] | None
) -> tuple[ComparedPaths, list[str]]:
    """Tell runs from the command behind them: the first arguments are what no option has named."""
    from serving.comparisons.compare.command import ComparedPaths

    rest = list(given)
    before, after = (side or [Path(rest.pop(0))] if side or rest else [] for side in (base, target))
    if not before:
        raise typer.BadParameter("no results: expected BASELINE, or --base FILE")
    return ComparedPaths(before, after, history or []), rest


def _confirming(times: int, command: list[str], baseline: str | None, seconds: float) -> Confirming | None:
    from serving.comparisons.compare.confirming import Confirming

    if not times:
        if command or baseline:
            raise typer.BadParameter(f"{shlex.join(command) or baseline!r} is run only with --confirm N")
        return None
    if not command:
        raise typer.BadParameter("--confirm needs -- COMMAND..., which measures the target again")
    return Confirming(times, tuple(command), tuple(shlex.split(baseline or "")), seconds)
