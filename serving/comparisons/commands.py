"""The commands about comparisons, and options that they share with other commands."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from data.stage import prepare_command
from serving.comparisons.labels.commands import Labels
from serving.comparisons.labels.commands import group as labels_group
from serving.options import (
    AsJson,
    Better,
    Directory,
    Format,
    KeepGoing,
    Model,
    Output,
    Shown,
    given_parameters,
)

if TYPE_CHECKING:
    from serving.comparisons.compare.command import ConfirmationRuns


def _parse_percentage(text: str, *, zero: bool) -> float:
    """Return a percentage as a share; 0 for "none". `zero`: whether the number 0 is allowed, too."""
    if text == "none":
        return 0.0
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1 or (share == 0 and not zero):
        interval = "from 0 to below 100" if zero else "between 0 and 100"
        raise typer.BadParameter(f"{text!r} is not a percentage {interval} and not none")
    return share


_share, _positive_share = partial(_parse_percentage, zero=True), partial(_parse_percentage, zero=False)
_percentage = partial(typer.Option, metavar="PERCENT", parser=_positive_share)


def _parse_base_rate(text: str) -> float | str:
    if text == "estimate":
        return text
    try:
        return _positive_share(text)
    except typer.BadParameter as exc:
        problem = f"{text!r} is not a percentage between 0 and 100; expected one, estimate or none"
        raise typer.BadParameter(problem) from exc


def _check_costs(text: str) -> str:
    try:
        costs = [float(part) for part in text.split(":")]
    except ValueError:
        costs = []
    if len(costs) != 3 or min(costs) <= 0:  # noqa: PLR2004
        raise typer.BadParameter(f"{text!r} is not three costs above 0, such as 100:10:1")
    return text


def _flag(*names: str, help: str) -> object:  # noqa: A002 - as of typer.Option
    return Annotated[bool | None, typer.Option(*names, help=help)]


MinEffectSize = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT",
        parser=_share,
        help="Smallest relative change of a median that may be called a regression. none: any change."
        " Default: that of the model, usually 0.5.",
    ),
]
Direction = Annotated[
    Better | None,
    typer.Option(
        help="Whether lower or higher values are better, if the input does not state it. Default: higher."
    ),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="FORMAT", help="Format of the input. Default: detected from its content."),
]

MaxFalseNegativeRate = Annotated[
    float | None,
    _percentage(
        help="Largest share of the regressions that may get the verdict pass. none: no limit."
        " Default: that of the model, or none if only --max-false-positive-rate is given.",
    ),
]
MaxFalsePositiveRate = Annotated[
    float | None,
    _percentage(
        help="Largest share of the comparisons without a regression that may get the verdict fail. none: no"
        " limit. Default: that of the model, or none if only --max-false-negative-rate is given.",
    ),
]
Costs = Annotated[
    str | None,
    typer.Option(
        metavar="FN:FP:REVIEW",
        parser=_check_costs,
        help="Relative costs of a missed regression, a false alarm and a person's review, such as 100:10:1."
        " Verdicts minimise the expected cost. Replaces --max-false-negative-rate and"
        " --max-false-positive-rate.",
    ),
]
BaseRate = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT|estimate",
        parser=_parse_base_rate,
        help="Share of regressions among the comparisons; corrects probabilities and thresholds."
        " estimate: from the comparisons, without labels. Default: that of the training data.",
    ),
]
#: Options of `serving.comparisons.model.load_judge`, for ``perfjudge serve``, by the names of its parameters.
DECIDING = {
    "min_effect_size": MinEffectSize,
    "max_false_negative_rate": MaxFalseNegativeRate,
    "max_false_positive_rate": MaxFalsePositiveRate,
    "costs": Costs,
    "base_rate": Annotated[
        float | None,
        _percentage(
            help="Share of regressions among the comparisons to come; corrects probabilities and thresholds."
            " Default: that of the training data (no correction).",
        ),
    ],
}
#: Options of ``perfjudge judge``.
JUDGING = {
    "better": Direction,
    "from_": From,
    **DECIDING,
    "base_rate": BaseRate,
    "fail_on_unsure": _flag(
        "--fail-on-unsure",
        help="Exit with 1 if any verdict is unsure. Has no effect in `trace` and `shadow`.",
    ),
    "retrospective": _flag(
        "--retrospective",
        help="Judge with the champion of the retrospective models, a second kind of models, which also"
        " use results of versions after the target, if the input has any. Has no effect with --model, and"
        " in `trace` and `shadow`.",
    ),
    "explain": _flag(
        "--why",
        "--explain",
        help="Also output the evidence, the nearest labelled comparisons and the smallest change that"
        " would flip the verdict; in JSON also the attributions (the features' shares in the verdict).",
    ),
}

#: Options of ``perfjudge serve``.
SERVING = {
    "labels": Labels,
    "comparisons": Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Comparisons to label, in any supported format. Default: the input of the last `dvc repro`.",
        ),
    ],
    "label_rate": Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Largest number of labels per person and minute. Default: 240."
        ),
    ],
}


def compare(  # noqa: PLR0917 - typer hands options over by name
    context: typer.Context,
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BASELINE TARGET",
            help="Results of baseline and target: each a file, or a directory of runs. With --confirm,"
            " end the command line with `-- COMMAND...`, which measures the target again. {output} in"
            " COMMAND stands for the file to write; perfjudge sets the environment variable"
            " PERFJUDGE_OPERATIONS to the operations to measure.",
        ),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Results of the baseline, instead of BASELINE; may be repeated."),
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Results of the target, instead of TARGET; may be repeated."),
    ] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Directory of earlier runs of the baseline's branch, used to estimate between-run variation."
            " File names must sort from the oldest to the newest run.",
        ),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BASE=NEW",
            help="Compare operation NEW of the target with operation BASE of the baseline; may be repeated."
            " Without TARGET, both operations are in one file.",
        ),
    ] = None,
    model: Model = None,
    shown: Shown = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit with 1 if any outcome is regression."),
    ] = False,
    fail_on_missing: Annotated[
        bool,
        typer.Option(
            "--fail-on-missing",
            help="Exit with 1 if a machine, an operation or a configuration is on one side only.",
        ),
    ] = False,
    fail_on_unsure: Annotated[
        bool | None, typer.Option("--fail-on-unsure", help="Exit with 1 if any outcome is unsure.")
    ] = None,
    init: Annotated[
        bool,
        typer.Option(
            "--init",
            help="Write a GitHub workflow for the benchmarks in this directory, and .perfjudge.yaml. Compare"
            " nothing.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--why",
            "--explain",
            help="In tables, add the evidence, except to rows that are unchanged or within noise.",
        ),
    ] = False,
    between_run_variation: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            parser=_share,
            help="Relative standard deviation between runs of one build, assumed if the data are too few to"
            " estimate it; that of the difference of two runs is 1.4 times as large. none: ignore this"
            " variation, and give verdicts of the model.",
        ),
    ] = "1.5",  # type: ignore[assignment] # as it is typed
    confirm: Annotated[
        int,
        typer.Option(
            min=0,
            max=100,
            metavar="N",
            help="Largest number of runs of COMMAND to check regressions and unsure outcomes.",
        ),
    ] = 0,
    confirm_base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE_COMMAND",
            help="Command that measures the baseline again, alternating with the command after --.",
        ),
    ] = None,
    confirm_timeout: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="Time limit of a run of COMMAND."),
    ] = 3600.0,
    acknowledged: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that lists known regressions (excused until a date, version or commit), unstable"
            " operations (always excused) and intended changes (excused in the comparison whose target is the"
            " commit of the change; later ones ignore history before this commit). Default: .perfjudge.yaml,"
            " if it exists.",
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT",
            help="Commit of the target, to find the entries of --acknowledged that apply. Default: the"
            " checked-out commit.",
        ),
    ] = None,
    base_commit: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT",
            help="Commit of the baseline. Intended changes of --acknowledged that it contains are not"
            " excused; history before them is ignored.",
        ),
    ] = None,
    from_: From = None,
    better: Direction = None,
    min_effect_size: MinEffectSize = None,
    max_false_negative_rate: MaxFalseNegativeRate = None,
    max_false_positive_rate: MaxFalsePositiveRate = None,
    costs: Costs = None,
    as_json: AsJson = False,
    output: Output = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a comment for a pull request, in Markdown."),
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")] = None,
    json_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JSON.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write an HTML page with table, box plots and the comment of --markdown.",
        ),
    ] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Also write GitHub annotations to standard error.")
    ] = False,
    step_summary: Annotated[
        bool,
        typer.Option(
            "--step-summary", help="Also append the comment of --markdown to the GitHub step summary."
        ),
    ] = False,
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name that distinguishes several comments of one pull request."),
    ] = "",
) -> int:
    """Compare two result files, or two sets of runs. --match pairs operations with different names.

    An outcome is the verdict, corrected for between-run variation and acknowledged changes: regression,
    unsure, improvement, acknowledged, invalid, or one of two for all other comparisons: `unchanged` if the
    median changed by less than --min-effect-size and the column detectable is at most 5 %, else
    `within noise`.
    """
    if init:
        from serving.comparisons.compare.workflow import write_workflow

        if others := [name for name in given_parameters(context) if name != "--init"]:
            raise typer.BadParameter(f"--init compares nothing, but there is {others[0]}")
        for tool, path in write_workflow(Path.cwd()):
            typer.echo(f"{tool}: {path}")
        return 0
    from data.comparisons.params import Measure
    from serving.answering import form_of

    prepare_command()
    from serving.comparisons.compare.acknowledging import read_acknowledged
    from serving.comparisons.compare.command import CompareRequest, compare_runs
    from serving.comparisons.model import load_judge

    form = form_of(shown, output, get_args(Format), as_json=as_json)
    # the first arguments are the sides without an option; a command may follow
    words, given = list(sides or []), context.obj or ()
    n_separated = len(given) - given.index("--") - 1 if confirm and "--" in given else 0
    command = [words.pop() for _ in range(n_separated)][::-1]
    before, after = (side or [Path(words.pop(0))] if side or words else [] for side in (base, target))
    command = [*words, *command]
    if not before:
        raise typer.BadParameter("no results: expected BASELINE, or --base FILE")
    comparing = CompareRequest(
        baseline=before,
        target=after,
        history=history or (),
        served=load_judge(model, min_effect_size, max_false_negative_rate, max_false_positive_rate, costs),
        measure=Measure.model_validate({"better": better}),
        assumed=between_run_variation,
        kind=from_,
        confirming=_confirmation_runs(confirm, command, confirm_base, confirm_timeout),
        acknowledged=read_acknowledged(acknowledged),
        commits=(base_commit, commit),
        matched=match or (),
    )
    failing = {"regression": fail_on_regression, "missing": fail_on_missing, "unsure": fail_on_unsure}
    return compare_runs(
        comparing,
        form,
        output,
        [kind for kind, fails in failing.items() if fails],
        files={"markdown": markdown, "junit": junit, "json": json_file, "html": html},
        annotations=annotations,
        step_summary=step_summary,
        name=name,
        explain=explain,
    )


def _confirmation_runs(
    times: int, command: list[str], baseline: str | None, seconds: float
) -> ConfirmationRuns:
    from serving.comparisons.compare.command import ConfirmationRuns

    if not times:
        if command:
            expected = "--base replaces BASELINE, --target TARGET; a command is run only with --confirm N"
            raise typer.BadParameter(f"unexpected {shlex.join(command)!r}: {expected}")
        if baseline:
            raise typer.BadParameter(f"--confirm-base {baseline!r} is run only with --confirm N")
        return ConfirmationRuns()
    if not command:
        raise typer.BadParameter("--confirm needs -- COMMAND..., which measures the target")
    try:
        base_command = shlex.split(baseline or "")
    except ValueError as exc:
        problem = f"--confirm-base {baseline!r}: {str(exc).lower()}; expected a command as in a shell"
        raise typer.BadParameter(problem) from exc
    return ConfirmationRuns(times, tuple(command), tuple(base_command), seconds)


def timelines(  # noqa: PLR0917 - typer hands options over by name
    rules: Annotated[list[Path], typer.Argument(metavar="RULES.xml", help="XML files that select results.")],
    results: Annotated[Path, typer.Argument(metavar="RESULTS_DIR", help="Directory of result files.")],
    output: Directory,
    model: Model = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL of a perfjudge server that judges instead of a local model."),
    ] = None,
    base_rate: BaseRate = None,
    better: Annotated[
        Better | None,
        typer.Option(
            help="Whether lower or higher values are better, if results do not state it. Default: higher.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Metric to read from files with several. Default: the first metric other than a duration.",
        ),
    ] = None,
    keep_going: KeepGoing = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of processes. Default: one per CPU."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the newest states and lasting changes as JSON.")
    ] = False,
) -> int:
    """Write HTML pages of the results of many versions. They show box plots, verdicts and lasting changes."""
    from data.comparisons.params import Measure
    from serving.comparisons.timelines.generate import TimelineOptions, write_timelines

    options = TimelineOptions(
        rules=tuple(rules),
        results=results,
        output=output,
        model=model,
        server=server,
        base_rate=base_rate or None,
        measure=Measure(metric=metric, better=better),
        keep_going=keep_going,
        jobs=jobs or len(os.sched_getaffinity(0)),
    )
    return write_timelines(options, as_json=as_json)


def add_commands(app: typer.Typer) -> None:
    """Add the commands ``compare``, ``labels`` (a group) and ``timelines`` to `app`."""
    app.command()(compare)
    app.add_typer(labels_group, name="labels")
    app.command()(timelines)
