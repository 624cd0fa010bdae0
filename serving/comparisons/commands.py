"""The commands about comparisons."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from serving.comparisons.promises import CostsOption, FailOnUnsure, FalseAlarms, Missed
from serving.options import (
    AsJson,
    Better,
    Directory,
    FailOnRegression,
    Format,
    KeepGoing,
    Model,
    Output,
    Shown,
)

if TYPE_CHECKING:
    from serving.comparisons.compare.command import ComparedPaths
    from serving.comparisons.compare.reading import Confirming


def share(text: str) -> float:
    """Return a percentage as a share; 0 for "none"."""
    try:
        found = 0.0 if text == "none" else float(text.removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise typer.BadParameter(f"{text!r} is no percentage from 0 to below 100, and not none")
    return found


Floor = Annotated[
    float | None,
    typer.Option(
        "--floor",
        metavar="PERCENT",
        parser=share,
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


Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="URL",
        envvar="PERFJUDGE_LABELS",
        help="Where labels are kept: sqlite:///FILE or postgresql://USER@HOST/DATABASE."
        " Default: labels.db in the project.",
    ),
]
Comparisons = Annotated[
    str | None,
    typer.Option(
        "--comparisons",
        metavar="SOURCE",
        help="What may be labelled: comparisons in any supported format. Default: what the project's"
        " pipeline has ingested.",
    ),
]
LabelRate = Annotated[
    int | None,
    typer.Option(
        "--label-rate",
        min=1,
        metavar="N",
        help="How many labels one person may give in a minute. Default: 240.",
    ),
]
#: Of ``perfjudge serve``.
SERVING = {"labels": Labels, "comparisons": Comparisons, "label_rate": LabelRate}


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
    from serving.comparisons.compare.reading import Confirming

    if not times:
        if command or baseline:
            raise typer.BadParameter(f"{shlex.join(command) or baseline!r} is run only with --confirm N")
        return None
    if not command:
        raise typer.BadParameter("--confirm needs -- COMMAND..., which measures the target again")
    return Confirming(times, tuple(command), tuple(shlex.split(baseline or "")), seconds)


group = typer.Typer(
    help="Which comparisons to label, labels in and out of their store, and which to doubt.",
    no_args_is_help=True,
)
Source = Annotated[
    Path, typer.Argument(metavar="DATA", help="Comparisons in any supported format, labelled or not.")
]
Labelled = Annotated[
    Path,
    typer.Argument(metavar="SOURCE", help="Comparisons in any supported format, or labels in a CSV file."),
]
About = Annotated[
    Path | None,
    typer.Option(
        "--comparisons",
        metavar="SOURCE",
        help="What the labels are about, in any supported format. Default: what the project's pipeline has"
        " ingested; csv has all labels without it.",
    ),
]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who gave labels that don't say it.")]
Exported = Annotated[
    Literal["csv", "xml", "tables"] | None,
    typer.Option(
        "--format",
        help="csv: labels.csv, to lie beside data; xml: the comparisons as in the scheduler thesis, figure"
        " 6.1; tables: the comparisons as Parquet, in a directory. Default: as the suffix of -o says, or"
        " csv.",
    ),
]
Written = Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="Where the result goes.")]
Project = Annotated[Path, typer.Argument(metavar="PROJECT", help="Where `dvc repro` has run.")]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Most = Annotated[int, typer.Option("--number", "-n", min=1, help="How many, at most.")]


@group.command("next")
def labels_next(  # noqa: PLR0917 - typer hands options over by name
    source: Source,
    number: Most = 20,
    model: Model = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Tell which comparisons to label first: those from which a model would learn most.

    With -o it writes a CSV file to fill in; as labels.csv beside the data it is read with them.
    """
    from serving.answering import form_of
    from serving.comparisons.labels.command import give_next

    form_of("csv", output, ("csv",))
    return give_next(source, number, model, keep_going=keep_going, as_json=as_json, output=output)


@group.command("suspects")
def labels_suspects(project: Project = Path(), number: Most = 20, as_json: Json = False) -> int:
    """List the labels that look wrong, by whom and why: the last run's models had not seen them."""
    from serving.comparisons.labels.command import give_suspects

    return give_suspects(project, number, as_json=as_json)


@group.command("people")
def labels_people(source: Source, keep_going: KeepGoing = False, as_json: Json = False) -> int:
    """Tell how reliable everybody is who labelled, and where they don't agree."""
    from serving.comparisons.labels.command import give_people

    return give_people(source, keep_going=keep_going, as_json=as_json)


@group.command("import")
def labels_import(
    source: Labelled,
    labels: Labels = None,
    by: By = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> int:
    """Add the labels of a file or directory to the store; what was added before is not added again."""
    from serving.comparisons.labels.command import import_labels

    return import_labels(source, labels, by, keep_going=keep_going, as_json=as_json)


@group.command("export")
def labels_export(
    output: Written,
    labels: Labels = None,
    comparisons: About = None,
    form: Exported = None,
) -> int:
    """Write what people say now: of each the last label of a comparison, unless it is withdrawn."""
    from serving.answering import form_of
    from serving.comparisons.labels.command import export_labels

    if form != "tables":
        known: tuple[Literal["csv", "xml"], ...] = ("csv", "xml")
        form = form_of(form, output, known)
    return export_labels(labels, comparisons, form, output)


def timelines(  # noqa: PLR0917 - typer hands options over by name
    rules: Annotated[list[Path], typer.Argument(metavar="RULES.xml...", help="Which results to show.")],
    results: Annotated[Path, typer.Argument(metavar="RESULTS_DIR", help="Results, in folders of any depth.")],
    output: Directory,
    model: Model = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Let a running perfjudge serve judge.")
    ] = None,
    better: Annotated[
        Better | None, typer.Option("--better", help="Which values are better, where results don't say.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What is measured; default: the first that is no time.")
    ] = None,
    keep_going: KeepGoing = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="How many processes work. Default: one a CPU.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say what was written as JSON.")] = False,
) -> int:
    """Show the results of many versions as pages: a box per version, with verdicts and lasting changes."""
    from data.comparisons.params import Measure
    from serving.comparisons.timelines.generate import TimelineWish, give_timelines

    measure = Measure(metric=metric, better=better)
    many = jobs or len(os.sched_getaffinity(0))
    wish = TimelineWish(tuple(rules), results, output, model, server, measure, keep_going, many)
    return give_timelines(wish, as_json=as_json)


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
    app.add_typer(group, name="labels")
    app.command()(timelines)
