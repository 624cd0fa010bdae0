"""The commands ``perfjudge corun``: read, ask, print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from serving.options import Directory, Model, Output, Seed

if TYPE_CHECKING:
    from pydantic import BaseModel

Answer = TypeVar("Answer", bound="BaseModel")
#: The seed of placements at random, unless another is given.
SEED = 20261121
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
Whole = Annotated[
    bool | None,
    typer.Option(
        "--whole/--beginning",
        help="SOLO.csv is a whole run, or only a beginning. Default: whole if it lasts longer.",
    ),
]


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
    from serving.corun.model import load_static
    from serving.corun.static import Question, ask
    from serving.corun.text import static_text

    found = ask([Question(task, (*beside, *(more or ())), machine)], load_static(model, further))
    return _give(found, static_text, output, as_json=as_json)


@group.command("online")
def corun_online(  # noqa: PLR0917 - typer hands options over by name
    solo: Annotated[
        Path,
        typer.Argument(metavar="SOLO.csv", help="perf stat -I 200 -x, (or -j) of the task alone."),
    ],
    together: Annotated[
        Path, typer.Argument(metavar="CORUN.csv", help="The same of the task beside the others.")
    ],
    machine: Machine = None,
    model: Model = None,
    whole: Whole = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Tell how much slower a new task gets, from its first seconds alone and beside the others."""
    from data.corun.tables import SAMPLE_DTYPES
    from data.measure.perf_stat import read
    from serving.corun.model import known_online
    from serving.corun.online_answer import answer
    from serving.corun.text import online_text

    alone, beside = (read(path, SAMPLE_DTYPES) for path in (solo, together))
    names = (str(solo), str(together))
    found = answer(alone, beside, machine, known_online(model), names, whole=whole)
    return _give(found, online_text, output, as_json=as_json)


@group.command("watch", context_settings={"ignore_unknown_options": True})
def corun_watch(  # noqa: PLR0917 - typer hands options over by name
    target: Annotated[
        list[str],
        typer.Argument(metavar="PID|COMMAND...", help="A process that runs, or a command that is run."),
    ],
    solo: Annotated[
        Path,
        typer.Option("--solo", metavar="FILE", help="perf stat -I 200 -x, (or -j) of a whole run alone."),
    ],
    interval: Annotated[
        float, typer.Option("--interval", min=0.05, max=60.0, metavar="S", help="Seconds between samples.")
    ] = 0.2,
    machine: Machine = None,
    model: Model = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Sample a task with perf while it runs, and show how its impact settles (--json: a line each time)."""
    from serving.answering import write
    from serving.corun.model import known_online
    from serving.corun.online_watch import Watching, shown
    from serving.corun.text import online_text

    in_file = _writes_json(output, as_json=as_json)
    watching = Watching(target, solo, interval, machine, known_online(model))
    found = shown(watching, as_json=as_json)
    if output is not None:
        write(f"{found.model_dump_json(indent=1)}\n" if in_file else online_text(found), output)
    elif not as_json:
        write(online_text(found), None)
    return 0


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
    from serving.corun.model import load_static
    from serving.corun.place import checked_on, place
    from serving.corun.text import place_text
    from training.corun.placement import Room

    static = load_static(model, further)
    found = place(tasks or (), Room(machines, slots), machine, static, SEED if seed is None else seed)
    found.checked = checked_on(found.machine)
    return _give(found, place_text, output, as_json=as_json)


@group.command("measure")
def corun_measure(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="What `corun place --json` wrote.")],
    suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml", help="The suite of the tasks.")],
    output: Directory,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="How often each is run.")] = 1,
) -> int:
    """Really run the best, the worst and the random placements of a plan on this machine, and compare."""
    from data.corun.collect import main
    from data.tables.files import write_text
    from serving.answering import write
    from serving.corun.place import PLAN, measured_text, plan_of, read_measured

    content = plan_of(plan)
    code = main(suite, [(one.name, one.groups) for one in content.placements], output, repetitions)
    if code == 0:
        write_text(output / PLAN, content.model_dump_json(indent=1) + "\n")
        write(measured_text(read_measured(output)), None)
    return code


def _give(found: Answer, told: Callable[[Answer], str], output: Path | None, *, as_json: bool) -> int:
    """Write an answer as JSON or as text, to a file or to standard output, and return the exit code."""
    from serving.answering import write

    as_json = _writes_json(output, as_json=as_json)
    write(f"{found.model_dump_json(indent=1)}\n" if as_json else told(found), output)
    return 0


def _writes_json(output: Path | None, *, as_json: bool) -> bool:
    from serving.answering import form_of

    return form_of("json" if as_json else None, output, ("text", "json")) == "json"
