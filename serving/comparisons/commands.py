"""The commands about comparisons."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

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
    from serving.comparisons.compare.reading import Confirming


def _percentage(text: str, *, zero: bool) -> float:
    """Return a percentage as a share; 0 for "none". `zero`: whether 0 is allowed as a number, too."""
    try:
        share = 0.0 if text == "none" else float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1 or (share == 0 and text != "none" and not zero):
        interval = "from 0 to below 100" if zero else "between 0 and 100"
        raise typer.BadParameter(f"{text!r} is no percentage {interval}, and not none")
    return share


_share, _positive_share = partial(_percentage, zero=True), partial(_percentage, zero=False)


def _costs(text: str) -> str:
    try:
        costs = [float(part) for part in text.split(":")]
    except ValueError:
        costs = []
    if len(costs) != 3 or min(costs) <= 0:  # noqa: PLR2004
        raise typer.BadParameter(f"{text!r} is not three costs above 0, such as 100:10:1")
    return text


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

Missed = Annotated[
    float | None,
    typer.Option(
        "--missed",
        metavar="PERCENT",
        parser=_positive_share,
        help="Of the regressions, at most this share may pass; others fail or are unsure. none = nothing is.",
    ),
]
FalseAlarms = Annotated[
    float | None,
    typer.Option(
        "--false-alarms",
        metavar="PERCENT",
        parser=_positive_share,
        help="Of what is no regression, at most this share may fail. none = as the model thinks best.",
    ),
]
Costs = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="MISS:ALARM:LOOK",
        parser=_costs,
        help="What a missed regression, a false alarm and a person's look cost: the cheapest verdicts.",
    ),
]
FailOnUnsure = Annotated[
    bool | None,
    typer.Option("--fail-on-unsure", help="Exit with 1 if a comparison gets the verdict unsure."),
]
#: By the names under which `serving.comparisons.model.load` takes them.
DECIDING = {"floor": Floor, "missed": Missed, "false_alarms": FalseAlarms, "costs": Costs}
#: Of ``perfjudge judge``.
JUDGING = {
    "better": Assumed,
    "from_": From,
    **DECIDING,
    "fail_on_unsure": FailOnUnsure,
    "retrospective": Retrospective,
}

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


def compare(  # noqa: PLR0917 - typer hands options over by name
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BASELINE] [TARGET] [-- COMMAND...]",
            help="The results before and after: a file, or a directory of runs. Then, for --confirm, what"
            " measures the target again, to {output}; PERFJUDGE_OPERATIONS names the operations in doubt.",
        ),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option("--base", metavar="FILE", help="Results before, in place of BASELINE; may be repeated."),
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option("--target", metavar="FILE", help="Results after, in place of TARGET; may be repeated."),
    ] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            "--history",
            metavar="DIR",
            help="Earlier runs of the baseline's branch, in the order of their names: they tell"
            " what runs differ by.",
        ),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            metavar="BASE=NEW",
            help="Compare operation NEW of the target with operation BASE of the baseline; may be repeated."
            " Without TARGET, both are of the one file.",
        ),
    ] = None,
    model: Model = None,
    shown: Shown = None,
    fail_on_regression: FailOnRegression = False,
    fail_on_missing: Annotated[
        bool, typer.Option("--fail-on-missing", help="Exit with 1 if only one side has something.")
    ] = False,
    fail_on_unsure: FailOnUnsure = None,
    runs_differ: Annotated[
        float,
        typer.Option(
            "--runs-differ",
            metavar="PERCENT",
            parser=_share,
            help="By how much runs of one build scatter (a standard deviation) where nothing tells;"
            " none: not at all.",
        ),
    ] = "3",  # type: ignore[assignment] # as it is typed
    confirm: Annotated[
        int,
        typer.Option(
            "--confirm", min=0, max=100, metavar="N", help="Run COMMAND so often for what is in doubt."
        ),
    ] = 0,
    confirm_base: Annotated[
        str | None,
        typer.Option(
            "--confirm-base", metavar="COMMAND", help="Measures the baseline again, in turn with COMMAND."
        ),
    ] = None,
    confirm_timeout: Annotated[
        float, typer.Option("--confirm-timeout", min=0.1, metavar="SECONDS", help="That one run may take.")
    ] = 3600.0,
    acknowledged: Annotated[
        Path | None,
        typer.Option(
            "--acknowledged",
            metavar="FILE",
            help="What people acknowledge, call unstable or accept. Default: .perfjudge.yaml, if it"
            " is there.",
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", help="What was measured after. Default: what git has checked out."),
    ] = None,
    base_commit: Annotated[
        str | None, typer.Option("--base-commit", help="What was measured before.")
    ] = None,
    from_: From = None,
    better: Assumed = None,
    floor: Floor = None,
    missed: Missed = None,
    false_alarms: FalseAlarms = None,
    costs: Costs = None,
    as_json: AsJson = False,
    output: Output = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write a comment for a pull request there, too."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML there, too.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json-file", metavar="FILE", help="Write JSON there, too.")
    ] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Write GitHub's annotations to standard error, too.")
    ] = False,
    step_summary: Annotated[
        bool, typer.Option("--step-summary", help="Add the comment to the page of GitHub's step, too.")
    ] = False,
    name: Annotated[
        str, typer.Option("--name", help="Tells the comment from those of other comparisons of one request.")
    ] = "",
) -> int:
    """Judge two results, several runs a side, or two operations of one file, at once."""
    from data.comparisons.params import Measure
    from serving.answering import form_of
    from serving.comparisons.compare.command import Comparing, Outputs, compare_runs
    from serving.comparisons.model import load

    form = form_of("json" if as_json else shown, output, get_args(Format))
    # the first arguments are the sides that no option has named; a command may follow
    command = list(sides or [])
    before, after = (side or [Path(command.pop(0))] if side or command else [] for side in (base, target))
    if not before:
        raise typer.BadParameter("no results: expected BASELINE, or --base FILE")
    comparing = Comparing(
        baseline=before,
        target=after,
        history=history or (),
        served=load(model, floor=floor, missed=missed, false_alarms=false_alarms, costs=costs),
        measure=Measure.model_validate({"better": better}),
        assumed=runs_differ,
        kind=from_,
        confirming=_confirming(confirm, command, confirm_base, confirm_timeout),
        acknowledged=acknowledged,
        commits=(base_commit, commit),
        matched=match or (),
    )
    further = {"markdown": markdown, "junit": junit, "json": json_file}
    outputs = Outputs(form, output, further, annotations, step_summary, name)
    failing = {"regression": fail_on_regression, "missing": fail_on_missing, "unsure": fail_on_unsure}
    return compare_runs(comparing, outputs, [kind for kind, fails in failing.items() if fails])


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
def labels_suspects(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="Where `dvc repro` has run.")] = Path(),
    number: Most = 20,
    as_json: Json = False,
) -> int:
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
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Comparisons in any supported format, or labels in a CSV file."
        ),
    ],
    labels: Labels = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who gave labels that don't say it.")
    ] = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> int:
    """Add the labels of a file or directory to the store; what was added before is not added again."""
    from serving.comparisons.labels.command import import_labels

    return import_labels(source, labels, by, keep_going=keep_going, as_json=as_json)


@group.command("export")
def labels_export(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="Where the result goes.")],
    labels: Labels = None,
    comparisons: Annotated[
        Path | None,
        typer.Option(
            "--comparisons",
            metavar="SOURCE",
            help="What the labels are about, in any supported format. Default: what the project's"
            " pipeline has ingested; csv has all labels without it.",
        ),
    ] = None,
    form: Annotated[
        Literal["csv", "xml", "tables"] | None,
        typer.Option(
            "--format",
            help="csv: labels.csv, to lie beside data; xml: the comparisons as in the scheduler"
            " thesis, figure 6.1; tables: the comparisons as Parquet, in a directory. Default: as"
            " the suffix of -o says, or csv.",
        ),
    ] = None,
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
    from serving.comparisons.timelines.generate import TimelineWish, write_timelines

    measure = Measure(metric=metric, better=better)
    many = jobs or len(os.sched_getaffinity(0))
    wish = TimelineWish(tuple(rules), results, output, model, server, measure, keep_going, many)
    return write_timelines(wish, as_json=as_json)


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
    app.add_typer(group, name="labels")
    app.command()(timelines)
