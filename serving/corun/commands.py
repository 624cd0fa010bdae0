"""The commands ``perfjudge corun``: read, predict, print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from serving.options import Directory, Model, Output, Seed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from serving.corun.model import Online

Answer = TypeVar("Answer", bound="BaseModel")
#: Default seed of random placements.
SEED = 20261121
group = typer.Typer(help="Predict the slow-down of tasks that share a machine.", no_args_is_help=True)
PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Machine = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="Machine of the co-runs, one that the model knows. Default: the only one that it knows.",
    ),
]
ExtraTasks = Annotated[
    Path | None,
    typer.Option(
        "--tasks",
        metavar="DIR",
        help="Directory with solo runs of additional tasks, written by `perfjudge collect`.",
    ),
]


@group.command("static")
def corun_static(  # noqa: PLR0917 - typer hands options over by name
    task: Annotated[str, typer.Option(metavar="A", help="Task whose slow-down is predicted.")],
    with_tasks: Annotated[list[str], typer.Option("--with", metavar="B", help="Co-runner; may be repeated.")],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="C", help="More co-runners, in addition to those of --with.")
    ] = None,
    machine: Machine = None,
    model: Model = None,
    extra_tasks: ExtraTasks = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Predict the slow-down of a task from solo runs. No co-run is needed.

    The answer is the impact (run time with co-runners / run time alone) and its prediction
    interval. Tasks that the model does not know need --tasks.
    """
    from pydantic import ValidationError

    from data.errors import InputError
    from data.tables.documents import validation_message
    from serving.corun.schemas import CorunQuestion
    from serving.corun.solo_runs import load_with_solo_runs
    from serving.corun.static import predict_corun
    from serving.corun.text import static_text

    corunners = [*with_tasks, *(more or ())]
    try:
        question = CorunQuestion(task=task, corunners=corunners, machine=machine)
    except ValidationError as exc:
        raise InputError(validation_message(exc)) from exc
    answer = predict_corun(question, load_with_solo_runs(model, extra_tasks))
    return _write_answer(answer, static_text, output, as_json=as_json)


@group.command("online")
def corun_online(  # noqa: PLR0917 - typer hands options over by name
    solo: Annotated[
        Path,
        typer.Argument(
            metavar="SOLO.csv", help="Output of `perf stat -I 200 -x,` (or -j) for the task alone."
        ),
    ],
    together: Annotated[
        Path, typer.Argument(metavar="CORUN.csv", help="Output of the same command, while co-runners run.")
    ],
    machine: Machine = None,
    model: Model = None,
    solo_is_whole: Annotated[
        bool | None,
        typer.Option(
            "--whole/--beginning",
            help="Whether SOLO.csv is a whole run or only the beginning of one. Default: whole if it lasts"
            " over 10 % longer than CORUN.csv, or both seem complete (equal work in different times).",
        ),
    ] = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Predict the slow-down of a new task from its first seconds.

    The answer is the impact (run time with co-runners / run time alone) and its prediction
    interval.
    """
    from data.corun.synonyms import IntervalCounts
    from data.corun.tables import SAMPLE_DTYPES
    from data.measure.perf_stat import read_intervals
    from serving.corun.online_answer import predict_online
    from serving.corun.text import online_text

    tables = [read_intervals(path, SAMPLE_DTYPES) for path in (solo, together)]
    alone, corun = map(IntervalCounts.from_table, tables)
    online, names = _known_online(model), (str(solo), str(together))
    prediction = predict_online(alone, corun, machine, online, names, whole=solo_is_whole)
    return _write_answer(prediction, online_text, output, as_json=as_json, inputs=(solo, together))


@group.command("watch", context_settings={"ignore_unknown_options": True})
def corun_watch(  # noqa: PLR0917 - typer hands options over by name
    target: Annotated[
        list[str], typer.Argument(metavar="PID|COMMAND", help="Process id, or command to run.")
    ],
    solo: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Output of `perf stat -I 200 -x,` (or -j) for a whole solo run."),
    ],
    interval: Annotated[
        float, typer.Option(min=0.05, max=60.0, metavar="S", help="Seconds between samples.")
    ] = 0.2,
    machine: Machine = None,
    model: Model = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Sample a running task, and update its predicted slow-down. Counters are read with perf.

    perfjudge ends with the task or at Ctrl-C. It prints the last answer, or with --json a line per update.
    Ctrl-C also ends a COMMAND, but not a task given by its process id.
    """
    from serving.answering import write_output
    from serving.corun.online_watch import watch_to_end
    from serving.corun.text import online_text

    json_file = _writes_json(output, as_json=as_json, inputs=[solo])
    online = _known_online(model)
    last = watch_to_end(target, solo, interval, machine=machine, online=online, as_json=as_json)
    if output is not None or not as_json:
        write_output(f"{last.model_dump_json(indent=1)}\n" if json_file else online_text(last), output)
    return 0


@group.command("place")
def corun_place(  # noqa: PLR0917 - typer hands options over by name
    machines: Annotated[int, typer.Option(metavar="N", help="Number of machines, all like --machine.")],
    slots: Annotated[int, typer.Option(metavar="K", help="Largest number of tasks per machine.")],
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK",
            help="Tasks; names may repeat. Default: all tasks with solo runs on --machine, and those of "
            "--tasks.",
        ),
    ] = None,
    machine: Machine = None,
    model: Model = None,
    extra_tasks: ExtraTasks = None,
    seed: Seed = None,
    as_json: PrintJson = False,
    output: Output = None,
) -> int:
    """Assign tasks to machines for the least predicted total slow-down."""
    from serving.corun.place import measured_saving_on, place_tasks
    from serving.corun.solo_runs import load_with_solo_runs
    from serving.corun.text import place_text
    from training.corun.placement import Room

    static = load_with_solo_runs(model, extra_tasks)
    plan = place_tasks(tasks or (), Room(machines, slots), machine, static, SEED if seed is None else seed)
    plan.checked = measured_saving_on(plan.machine)
    return _write_answer(plan, place_text, output, as_json=as_json)


@group.command("measure")
def corun_measure(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="Output of `corun place --json`.")],
    suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml", help="Suite that defines the tasks.")],
    output: Directory,
    repetitions: Annotated[int, typer.Option(min=1, metavar="N", help="Runs per placement.")] = 1,
) -> int:
    """Run the best, worst and five random placements from `place`. Compare their run times.

    After the last run, placements.parquet, settings.json and the plan are written, and the run times are
    printed. A run of a placement is left out if a task exceeded its time limit. After Ctrl-C, nothing
    is written, and the exit code is 130. Every task of the plan must be in the suite.
    """
    from data.corun.collect import collect_placements
    from data.measure.child import end_in_good_order
    from data.measure.session import Screen
    from data.tables.files import write_text
    from serving.answering import write_output
    from serving.corun.place import PLAN, measured_text, plan_of, read_measured

    content = plan_of(plan)
    placements = [(placement.name, placement.groups) for placement in content.placements]
    end_in_good_order()
    try:
        with Screen() as screen:
            collect_placements(suite, placements, output, repetitions, screen)
    except KeyboardInterrupt:
        return 130
    write_text(output / PLAN, content.model_dump_json(indent=1) + "\n")
    write_output(measured_text(read_measured(output)), None)
    return 0


def _write_answer(
    answer: Answer,
    as_text: Callable[[Answer], str],
    output: Path | None,
    *,
    as_json: bool,
    inputs: Sequence[Path] = (),
) -> int:
    from serving.answering import write_output

    as_json = _writes_json(output, as_json=as_json, inputs=inputs)
    write_output(f"{answer.model_dump_json(indent=1)}\n" if as_json else as_text(answer), output)
    return 0


def _writes_json(output: Path | None, *, as_json: bool, inputs: Sequence[Path]) -> bool:
    from serving.answering import form_of

    return form_of(None, output, ("text", "json"), as_json=as_json, inputs=inputs) == "json"


def _known_online(model: str | None) -> Online | None:
    from serving.corun.model import known_online, online_name
    from serving.plugins import naming_kind

    with naming_kind(model, online_name()):
        return known_online(model)
