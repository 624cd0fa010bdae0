"""Placements of tasks on machines: best, random and worst, predicted and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import ValidationError

from data.corun.collect import PLACEMENT_DTYPES, PLACEMENTS_FILE
from data.errors import InputError
from data.tables.documents import validation_message
from data.tables.files import content_of
from data.tables.problems import shorten_names
from data.tables.specs import read_table
from serving.corun.model import Static
from serving.corun.schemas import CheckedAnswer, PlaceAnswer, PlacementAnswer, RandomAnswer, SavingAnswer
from serving.corun.static import impact_matrix, resolve_machine, source_machines
from serving.http.schemas import finite_or_none
from serving.reports.separation import ERRORS
from serving.reports.text_tables import text_table
from training.corun import placement
from training.corun.placement import Placement, Room

#: Directory of the measured placements of a project.
PLACEMENTS = Path("data/raw/placements")
PLAN = "plan.json"
BEST, WORST, RANDOM = "best", "worst", "random-"
#: Number of random placements, and of those that are measured with the best and the worst.
DRAWS, LISTED = 1000, 5


@dataclass(frozen=True)
class MeasuredPlacements:
    """Placements that were run; the seconds of `totals` are sums over all tasks.

    `totals` has a row per ``placement``, smallest prediction first: ``predicted`` (NaN if not in the plan),
    ``measured`` (mean), ``spread`` (half the range), ``repetitions``, and ``foreign``, the largest share of
    the machine that other programs used.
    """

    plan: PlaceAnswer
    totals: pd.DataFrame
    tasks: int
    machine: str

    @property
    def summary(self) -> str:
        """A sentence that compares the predicted best placement with random ones."""
        names, measured = self.totals["placement"].str, self.totals["measured"]
        best, worst, drawn = (measured[names.startswith(prefix)] for prefix in (BEST, WORST, RANDOM))
        took, random = best.mean(), drawn.mean()
        sign = "less" if took < random else "more"
        # no more than random placements differ among each other
        within = abs(took - random) <= ERRORS * drawn.std()
        chance = ", a difference within the variation of random placements" if within else ""
        return (
            f"the predicted best took {took:.1f} s of run time in total, {abs(random - took):.1f} s "
            f"({abs(1 - took / random):.1%}) {sign} than the mean of {len(drawn)} random placements "
            f"({random:.1f} s){chance}; {(drawn.round(1) > round(took, 1)).sum()} of the "
            f"{len(drawn)} random placements took longer; the predicted worst took {worst.mean():.1f} s"
        )

    @property
    def measured_saving(self) -> CheckedAnswer:
        """The saved time of the predicted best placement, compared with random placements."""
        drawn = self.totals["placement"].str.startswith(RANDOM)
        predicted = self._mean_saving("predicted", drawn)
        return CheckedAnswer(
            tasks=self.tasks,
            draws=int(drawn.sum()),
            saved_against_random=self._mean_saving("measured", drawn),
            predicted=predicted if np.isfinite(predicted.seconds) else None,
        )

    def _mean_saving(self, column: str, drawn: pd.Series) -> SavingAnswer:
        seconds = self.totals[column]
        took, random = float(seconds[self.totals["placement"] == BEST].mean()), float(seconds[drawn].mean())
        return SavingAnswer(seconds=random - took, share=1 - took / random)


def measured_saving_on(machine: str, directory: Path = PLACEMENTS) -> CheckedAnswer | None:
    """Return the measured saving of the plan in `directory`; None if not measured, or not for `machine`.

    The machine is that of the plan, not the one that it ran on. InputError if only the plan is missing, or a
    file is invalid.
    """
    if not (directory / PLACEMENTS_FILE).is_file():
        return None
    measured = read_measured(directory)
    return measured.measured_saving if measured.plan.machine == machine else None


def plan_of(path: Path) -> PlaceAnswer:
    """Return the plan that ``perfjudge corun place --json`` wrote; InputError for other and missing files."""
    try:
        return PlaceAnswer.model_validate(content_of(path))
    except ValidationError as exc:
        problem = f"is no placement that perfjudge corun place --json wrote ({validation_message(exc)})"
        raise InputError(problem, file=path) from exc


def read_measured(directory: Path) -> MeasuredPlacements:
    """Return the plan and the measured placements in the output directory of ``perfjudge corun measure``.

    The result has ``plan, totals, tasks, machine`` (see `MeasuredPlacements`). Repetitions without all tasks,
    such as after a time limit, are left out. InputError if a file is missing or invalid, or no repetition of
    the best or of any random placement is complete.
    """
    plan, rows = plan_of(directory / PLAN), read_table(directory / PLACEMENTS_FILE, PLACEMENT_DTYPES)
    sums = rows.groupby(["placement", "repetition"], sort=True)["corun_seconds"].agg(["sum", "size"])
    tasks = sum(map(len, plan.placements[0].groups)) if plan.placements else 0
    runs = sums.loc[sums["size"] == tasks, "sum"]
    names = [str(name) for name, _ in runs.index]
    if not all(any(name.startswith(kind) for name in names) for kind in (BEST, RANDOM)):
        problem = f"has no complete repetition of the best and of a random placement of {tasks} tasks"
        raise InputError(problem, file=directory / PLACEMENTS_FILE)
    totals = runs.groupby(level=0).agg(
        measured="mean", spread=lambda values: float(np.ptp(values)) / 2, repetitions="size"
    )
    predicted = {placement.name: placement.seconds for placement in plan.placements}
    totals.insert(0, "predicted", np.array([predicted.get(str(name)) for name in totals.index], np.float64))
    totals["foreign"] = rows.groupby("placement")["foreign"].max()
    table = totals.reset_index().sort_values(["predicted", "placement"], ignore_index=True)
    return MeasuredPlacements(plan, table, tasks, str(rows["machine"].iloc[0]))


def measured_text(placements: MeasuredPlacements) -> str:
    """Return a text table of the predicted and measured seconds of each placement, and a summary."""
    rows = [
        (
            str(row["placement"]),
            "-" if np.isnan(row["predicted"]) else f"{row['predicted']:.1f}",
            f"{row['measured']:.1f}",
            f"\N{PLUS-MINUS SIGN} {row['spread']:.1f}" if row["repetitions"] > 1 else "-",
        )
        for row in placements.totals.to_dict("records")
    ]
    numbers = ("predicted", "measured", "repetitions differ by")
    caption = f"{placements.tasks} tasks on {placements.machine}; seconds of run time in all"
    table = text_table(("placement", *numbers), rows, numbers=numbers, caption=caption)
    return f"{table}{placements.summary}\n"


def place_tasks(
    tasks: Sequence[str], room: Room, machine: str | None, static: Static, seed: int
) -> PlaceAnswer:
    """Return a plan with the best, then five random, then the worst placement of tasks on equal machines.

    ``random`` sums up 1000 random ones. `tasks` may repeat a task; if it is empty, all tasks with solo runs
    on the machine are placed. `machine` None is the only known machine. The best has the smallest sum of
    predicted slow-downs (impact - 1), the worst the largest, both approximately with more than two slots. For
    an unknown machine, solo runs on the first known one that has all `tasks` are used, with a note. Run times
    are sums over tasks in seconds; they and the savings are None unless all tasks have solo times on
    `machine`. InputError as by `source_machines`, if `machine` is None and not exactly one is known, no tasks
    are given for an unknown machine, or `room` is too small; ModelError if a prediction is not finite.
    """
    meant = resolve_machine(machine, static)
    everyone = tuple(tasks) or tuple(sorted(static.known_tasks.tasks_by_machine.get(meant, ())))
    if not everyone:
        known_machines = shorten_names([f'"{name}"' for name in sorted(static.known_tasks.tasks_by_machine)])
        raise InputError(f'no task ran alone on "{meant}", but on {known_machines}; name the tasks to place')
    source = source_machines(everyone, meant, static)[0]
    room.require_space(len(everyone))
    names, numbers = np.unique(np.array(everyone, np.str_), return_inverse=True)
    predicted = impact_matrix(names.tolist(), source, static)[np.ix_(numbers, numbers)]
    seconds = np.array([static.known_tasks.solo_seconds(meant, name) for name in names.tolist()])[numbers]
    cost = placement.pairwise_cost(predicted - 1)
    longer = placement.pairwise_cost((predicted - 1) * seconds[:, None])
    alone, number = float(seconds.sum()), len(everyone)

    def placement_answer(name: str, chosen: Placement) -> PlacementAnswer:
        groups = [[everyone[task] for task in group] for group in chosen.groups]
        total = finite_or_none(alone + placement.total_slowdown(list(chosen.groups), longer))
        return PlacementAnswer(name=name, groups=groups, slowdown=chosen.total, seconds=total)

    best = placement.best_placement(number, room, cost, seed)
    worst = placement.worst_placement(number, room, cost, seed)
    first, last = placement_answer(BEST, best), placement_answer(WORST, worst)
    drawn = enumerate(placement.random_placements(number, room, cost, LISTED, seed), 1)
    totals = placement.random_totals(number, room, cost, DRAWS, seed)
    times = alone + placement.random_totals(number, room, longer, DRAWS, seed)
    (low, high), (shortest, longest) = (np.quantile(values, (0.05, 0.95)) for values in (totals, times))
    random = RandomAnswer(
        draws=len(totals),
        mean=totals.mean(),
        low=low,
        high=high,
        seconds=finite_or_none(times.mean()),
        seconds_low=finite_or_none(shortest),
        seconds_high=finite_or_none(longest),
    )
    return PlaceAnswer(
        model=static.ref.model_answer,
        machine=meant,
        machines=room.machines,
        slots=room.slots,
        exact=best.exact,
        saved_against_random=_saving_over(first.seconds, random.seconds),
        saved_against_worst=_saving_over(first.seconds, last.seconds),
        random=random,
        placements=[first, *(placement_answer(f"{RANDOM}{place}", draw) for place, draw in drawn), last],
        notes=_placement_notes(everyone, meant, source, room, static),
    )


def _saving_over(seconds: float | None, against: float | None) -> SavingAnswer | None:
    if seconds is None or against is None:
        return None
    # a difference that is only due to rounding is none
    seconds = against if math.isclose(seconds, against, rel_tol=1e-12) else seconds
    return SavingAnswer(seconds=against - seconds, share=1 - seconds / against)


def _placement_notes(
    tasks: Sequence[str], machine: str, source: str, room: Room, static: Static
) -> list[str]:
    notes = list(static.notes)
    if machine not in static.card.machines:
        note = f'the model was not trained on the machine "{machine}"'
        notes.append(note if source == machine else f'{note}; the solo runs are those of "{source}"')
    strangers = [task for task in dict.fromkeys(tasks) if task not in static.card.tasks]
    if strangers:
        notes.append(f"the model was not trained on {', '.join(strangers)}")
    if room.slots > 2:  # noqa: PLR2004 - more than a pair
        notes.append("slow-downs by several co-runners are added up from pairs")
    return notes
