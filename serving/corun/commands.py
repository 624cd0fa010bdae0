"""The commands ``perfjudge corun``, which only pass on what the user said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.options import Directory, Model, Output, Seed

group = typer.Typer(
    help="How much slower does a task get when it shares the machine with others?", no_args_is_help=True
)
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


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(group, name="corun")


@group.command("static")
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


@group.command("online")
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


@group.command("place")
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


@group.command("measure")
def corun_measure(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="What `corun place --json` wrote.")],
    suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml", help="The suite of the tasks.")],
    output: Directory,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="How often each is run.")] = 1,
) -> int:
    """Really run the best, the worst and the random placements of a plan on this machine, and compare."""
    from serving.corun.command import measure

    return measure(suite, plan, output, repetitions)
