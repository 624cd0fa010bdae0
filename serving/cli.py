"""The command line ``perfjudge``: one function a command, which only passes on what the user said."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from data.ending import end
from data.errors import InputError

app = typer.Typer(
    name="perfjudge",
    help="Learns from engineers' verdicts on performance measurements, and then gives those verdicts itself.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


irup = typer.Typer(
    help="Which resources does an application lean on, and did that change?", no_args_is_help=True
)
app.add_typer(irup, name="irup")


corun = typer.Typer(
    help="How much slower does a task get when it shares the machine with others?", no_args_is_help=True
)
app.add_typer(corun, name="corun")


class Better(StrEnum):
    """Which values are better."""

    LOWER = "lower"
    HIGHER = "higher"


class Form(StrEnum):
    """How profiles are given."""

    text = "text"
    json = "json"
    html = "html"


class Format(StrEnum):
    """How verdicts are printed."""

    table = "table"
    json = "json"
    xml = "xml"
    markdown = "markdown"
    junit = "junit"


def _share(text: str) -> float:
    """Return a percentage as a share; 0 for "none"."""
    try:
        share = 0.0 if text == "none" else float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise typer.BadParameter(f"{text!r} is no percentage from 0 to below 100, and not none")
    return share


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PATH|URI",
        help="A directory with model.skops and card.json, models:/name@alias or models:/name/version."
        " Default: the champion.",
    ),
]
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
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there instead of to the terminal."),
]
Shown = Annotated[Format, typer.Option("--format", help="How verdicts are printed.")]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
FailOnRegression = Annotated[
    bool, typer.Option("--fail-on-regression", help="Exit with 1 if a comparison gets the verdict fail.")
]
KeepGoing = Annotated[bool, typer.Option("--keep-going", help="Skip what is bad in the input, and count it.")]
Given = Annotated[Form, typer.Option("--format", help="How the answer is given; html is a page of its own.")]
Metric = Annotated[str, typer.Option("--metric", help="What the values of a CSV file are.")]
Direction = Annotated[Better, typer.Option("--better", help="Which values of a CSV file are better.")]
Assumed = Annotated[
    Better | None,
    typer.Option("--better", help="Which values are better, where the input does not say. Default: higher."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, max=2**32 - 1, help="Of all that is drawn at random.")
]
Directory = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the result goes.")]


@app.command()
def judge(  # noqa: PLR0917 - typer hands options over by name
    source: Annotated[
        Path,
        typer.Argument(metavar="INPUT", help="Comparisons in any supported format, or matrices."),
    ],
    model: Model = None,
    shown: Shown = Format.table,
    fail_on_regression: FailOnRegression = False,
    keep_going: KeepGoing = False,
    better: Assumed = None,
    floor: Floor = None,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Give verdicts on the comparisons, or the matrices, of a file or directory."""
    from serving.answering import Wanted, judge_source

    wanted = Wanted("json" if as_json else shown.value, output, fail_on_regression)
    said = None if better is None else better.value
    return judge_source(source, model, wanted, keep_going=keep_going, better=said, floor=floor)


@app.command()
def compare(  # noqa: PLR0917 - typer hands options over by name
    baseline: Annotated[Path, typer.Argument(help="The results before.")],
    target: Annotated[Path, typer.Argument(help="The results after.")],
    model: Model = None,
    shown: Shown = Format.table,
    fail_on_regression: FailOnRegression = False,
    fail_on_missing: Annotated[
        bool, typer.Option("--fail-on-missing", help="Exit with 1 if only one file has something.")
    ] = False,
    floor: Floor = None,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Judge two result files at once."""
    from serving.answering import Wanted, judge_pair

    wanted = Wanted("json" if as_json else shown.value, output, fail_on_regression)
    return judge_pair(baseline, target, model, wanted, fail_on_missing=fail_on_missing, floor=floor)


@app.command("import")
def import_(  # noqa: PLR0917 - typer hands options over by name
    kind: Annotated[str, typer.Argument(metavar="FORMAT", help="The format of the sources.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Files or directories.")],
    output: Directory,
    keep_going: KeepGoing = False,
    better: Assumed = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PATTERN", help="Of matrices: only the workloads of such names."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="PATTERN", help="Of matrices: no workloads of such names."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was imported as JSON.")] = False,
) -> int:
    """Read measurements of a supported format into tables."""
    from data.matrices.choice import Choice
    from serving.importing import import_sources

    chosen = Choice(only or (), without or ())
    said = None if better is None else better.value
    return import_sources(
        kind, sources, output, chosen=chosen, better=said, keep_going=keep_going, as_json=as_json
    )


@irup.command("profile")
def irup_profile(  # noqa: PLR0917 - typer hands options over by name
    machines: Annotated[
        Path,
        typer.Argument(
            metavar="MACHINES",
            help="Fingerprints: a directory of tables, of the paper's data (quiho) or of Spare Cores' data"
            " (sparecores); or a CSV file with a row per machine and a column per stressor.",
        ),
    ],
    application: Annotated[
        str,
        typer.Argument(
            metavar="APPLICATION",
            help="A CSV file machine,value[,repetition][,unit], or the name of an application in MACHINES.",
        ),
    ],
    metric: Metric = "seconds",
    better: Direction = Better.LOWER,
    predict: Annotated[
        bool, typer.Option("--predict", help="Also predict machines that were only fingerprinted.")
    ] = False,
    keep_going: KeepGoing = False,
    seed: Seed = None,
    given: Given = Form.text,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Tell which resources an application leans on, and how far that can be trusted."""
    from serving.fingerprints.command import Shown, learning, profile_machines

    how = learning(metric, better.value, seed, keep_going=keep_going)
    shown = Shown("json" if as_json else given.value, output)
    return profile_machines(machines, application, how, shown, predicting=predict)


@irup.command("diff")
def irup_diff(  # noqa: PLR0917 - typer hands options over by name
    a: Annotated[str, typer.Argument(metavar="A", help="A profile that `irup profile --json` wrote.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    machines: Annotated[
        Path | None,
        typer.Option(
            "--machines",
            metavar="MACHINES",
            help="Fingerprints as for `irup profile`; A and B are applications then, as there.",
        ),
    ] = None,
    metric: Metric = "seconds",
    better: Direction = Better.LOWER,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit with 1 if a stressor really moved.")
    ] = False,
    keep_going: KeepGoing = False,
    seed: Seed = None,
    given: Given = Form.text,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Tell whether two profiles differ, and in which stressors."""
    from serving.fingerprints.command import Shown, compare_profiles, learning

    how = learning(metric, better.value, seed, keep_going=keep_going)
    shown = Shown("json" if as_json else given.value, output)
    return compare_profiles(a, b, machines, how, shown, fail_on_regression=fail_on_regression)


PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Machine = Annotated[
    str | None,
    typer.Option("--machine", metavar="M", help="Where they run. Default: the machine that the model knows."),
]
Further = Annotated[
    Path | None,
    typer.Option(
        "--tasks", metavar="DIR", help="Tables with solo runs of further tasks, as `collect` writes them."
    ),
]


@corun.command("static")
def corun_static(  # noqa: PLR0917 - typer hands options over by name
    task: Annotated[str, typer.Option("--task", metavar="A", help="The task that is asked about.")],
    beside: Annotated[list[str], typer.Option("--with", metavar="B", help="What runs beside it.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="[C]...", help="And what else does.")] = None,
    machine: Machine = None,
    model: Model = None,
    further: Further = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Tell how much slower a task gets that ran alone before."""
    from serving.corun.command import Shown, predict
    from serving.corun.static import Question

    question = Question(task, (*beside, *(more or ())), machine)
    return predict(question, model, further, Shown(as_json, output))


@corun.command("online")
def corun_online(  # noqa: PLR0917 - typer hands options over by name
    solo: Annotated[
        Path,
        typer.Argument(metavar="SOLO.csv", help="perf stat -I 200 -x, of the task alone."),
    ],
    together: Annotated[
        Path, typer.Argument(metavar="CORUN.csv", help="The same of the task beside the others.")
    ],
    machine: Machine = None,
    model: Model = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Tell how much slower a new task gets, from its first seconds alone and beside the others."""
    from serving.corun.command import Shown, sample

    return sample(solo, together, machine, model, Shown(as_json, output))


@corun.command("place")
def corun_place(  # noqa: PLR0917 - typer hands options over by name
    machines: Annotated[int, typer.Option("--machines", metavar="N", help="How many equal machines.")],
    slots: Annotated[int, typer.Option("--slots", metavar="K", help="How many tasks one of them takes.")],
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASKS]...", help="A name may stand twice. Default: all known tasks."),
    ] = None,
    machine: Machine = None,
    model: Model = None,
    further: Further = None,
    seed: Seed = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Tell which tasks to put together, so that they slow one another down least."""
    from serving.corun.command import SEED, Shown, Wanted, put

    wanted = Wanted(tasks or (), machines, slots, machine, SEED if seed is None else seed)
    return put(wanted, model, further, Shown(as_json, output))


@corun.command("measure")
def corun_measure(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="What `corun place --json` wrote.")],
    suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml", help="The suite of the tasks.")],
    output: Directory,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="How often each is run.")] = 1,
) -> int:
    """Really run the best, the worst and the random placements of a plan on this machine, and compare."""
    from serving.corun.command import measure

    return measure(suite, plan, output, repetitions)


@app.command()
def serve(  # noqa: PLR0917 - typer hands options over by name
    model: Model = None,
    corun_static: Annotated[
        str | None,
        typer.Option("--corun-static", metavar="PATH|URI", help="The same of co-runs before they run."),
    ] = None,
    corun_online: Annotated[
        str | None,
        typer.Option("--corun-online", metavar="PATH|URI", help="The same, from first seconds."),
    ] = None,
    matrices: Annotated[
        str | None, typer.Option("--matrices", metavar="PATH|URI", help="The same, of matrices.")
    ] = None,
    floor: Floor = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 = any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many processes answer.")] = 1,
) -> int:
    """Answer over HTTP."""
    from serving.doors.server import Addresses
    from serving.doors.server import serve as listen

    return listen(Addresses(model, corun_static, corun_online, matrices, floor), host, port, workers)


@app.command()
def collect(
    suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml", help="What to measure, and how often.")],
    output: Directory,
) -> int:
    """Measure comparisons, matrices, co-runs, or the fingerprint of this machine: the suite says which."""
    from data.collect import main as measure

    return measure(suite, output)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        By default those of the process.

    Returns
    -------
    int
        0 done, 1 found what ``--fail-on-regression`` or ``--fail-on-missing`` asks for, 2 bad input or
        usage, 70 a mistake of perfjudge itself, 130 interrupted.
    """
    from typer.exceptions import Abort, TyperException

    try:
        return app(args=arguments, prog_name="perfjudge", standalone_mode=False) or 0
    except TyperException as exc:
        return end(InputError(exc.format_message()), "perfjudge: ")
    except (Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as exc:  # noqa: BLE001 - the net below every command
        return end(exc, "perfjudge: ")


def main() -> None:
    """Run ``perfjudge``."""
    sys.exit(run())
