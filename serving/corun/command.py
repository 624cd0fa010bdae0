"""What ``perfjudge corun static``, ``online``, ``place`` and ``measure`` do: read, ask, print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from data.corun import formats as corun_formats
from data.tables.files import write_text
from serving.answering import write
from serving.corun import json as corun_json
from serving.corun import text as corun_text
from serving.corun.model import load_online, load_static
from serving.corun.place import place
from serving.corun.static import Question, ask
from serving.supply import Counts
from training.corun.placement import Room

#: The seed of placements at random, unless another is given.
SEED = 20261121


@dataclass(frozen=True)
class Shown:
    """How the answer is given: as JSON or as text, to a file or to standard output."""

    as_json: bool
    output: Path | None


@dataclass(frozen=True)
class Wanted:
    """Tasks to place (none: all that are known) on equal machines, and the kind of machine."""

    tasks: Sequence[str]
    machines: int
    slots: int
    machine: str | None
    seed: int = SEED


def predict(question: Question, uri: str | None, further: Path | None, shown: Shown) -> int:
    """Tell how much slower a known task gets beside others, and return the exit code.

    Raises
    ------
    InputError
        If a task, the machine or the model is unknown.
    """
    static = load_static(uri, further)
    found = ask([question], static)
    return _give(corun_json.static_answer(found, static), corun_text.static_text(found[0], static), shown)


def sample(solo: Path, corun: Path, machine: str | None, uri: str | None, shown: Shown) -> int:
    """Tell how much slower a new task gets, from perf's samples of it, and return the exit code.

    Raises
    ------
    InputError
        If a file or the model cannot be used.
    """
    from data.corun.tables import SAMPLE_DTYPES
    from data.measure.perf_stat import intervals
    from serving.corun.online import answer

    alone, together = intervals(solo, SAMPLE_DTYPES), intervals(corun, SAMPLE_DTYPES)
    online = load_online(uri)
    found = answer(alone, together, machine, online, (str(solo), str(corun)))
    return _give(corun_json.online_answer(found, online), corun_text.online_text(found, online), shown)


def put(wanted: Wanted, uri: str | None, further: Path | None, shown: Shown) -> int:
    """Tell which tasks to put together, and return the exit code.

    Raises
    ------
    InputError
        If a task, the machine or the model is unknown, or the tasks find no room.
    """
    static = load_static(uri, further)
    found = place(wanted.tasks, Room(wanted.machines, wanted.slots), wanted.machine, static, wanted.seed)
    return _give(corun_json.place_answer(found, static), corun_text.place_text(found, static), shown)


def measure(suite: Path, plan: Path, directory: Path, repetitions: int) -> int:
    """Really run the placements of a plan, and return the exit code.

    Raises
    ------
    InputError
        If suite or plan cannot be used, or a program fails.
    """
    from data.corun.placements import main as run
    from serving.corun.measured import PLAN, measured_text, plan_of, read_measured

    content = plan_of(plan)
    code = run(suite, [(one.name, one.groups) for one in content.placements], directory, repetitions)
    if code == 0:
        write_text(directory / PLAN, content.model_dump_json(indent=1) + "\n")
        write(measured_text(read_measured(directory)).encode(), None)
    return code


def _give(answer: BaseModel, text: str, shown: Shown) -> int:
    told = f"{answer.model_dump_json(indent=1)}\n" if shown.as_json else text
    write(told.encode(), shown.output)
    return 0


def imported(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    """Write the tables of co-runs to `directory`; errors as of `data.corun.formats.read`."""
    reading = corun_formats.read(kind, sources, keep_going=keep_going)
    tables = reading.tables
    tables.write(directory)
    rows = {
        "machines": tables.tasks["machine"].nunique(),
        "tasks": tables.tasks["task"].nunique(),
        "events": len(tables.events),
        "solo_runs": len(tables.tasks),
        "pairs": len(tables.pairs),
        "samples": len(tables.samples),
    }
    return Counts(rows, reading.skipped)
