"""Placement of tasks on machines: the best, random and worst ones, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from data.corun.collect import PLACEMENT_DTYPES, PLACEMENTS_FILE
from data.errors import InputError
from data.tables.documents import said
from data.tables.files import content_of
from data.tables.specs import read_table
from serving.corun.model import Static
from serving.corun.schemas import CheckedAnswer, PlaceAnswer, PlacementAnswer, RandomAnswer, SavingAnswer
from serving.corun.static import impacts, machine_of, require
from serving.http.schemas import finite
from serving.reports.separation import ERRORS
from serving.reports.text_tables import tabulated
from training.corun import placement
from training.corun.placement import Placement, Room

#: Directory of a project's measured placements.
PLACEMENTS = Path("data/raw/placements")
PLAN = "plan.json"
BEST, WORST, RANDOM = "best", "worst", "random-"


@dataclass(frozen=True)
class MeasuredPlacements:
    """Placements that were really run."""

    plan: PlaceAnswer
    totals: pd.DataFrame
    tasks: int
    machine: str

    @property
    def told(self) -> str:
        """Say in one sentence whether the predicted best was better than random."""
        named = self.totals["placement"].str
        best, worst, drawn = (self.totals["measured"][named.startswith(one)] for one in (BEST, WORST, RANDOM))
        took, random = best.mean(), drawn.mean()
        how = "less" if took < random else "more"
        return (
            f"the predicted best took {took:.1f} s of run time in all, {abs(random - took):.1f} s "
            f"({abs(1 - took / random):.1%}) {how} than {len(drawn)} placements at random "
            f"({random:.1f} s on average; it beat {(drawn > took).sum()} of them{_chance(took, drawn)}); "
            f"the predicted worst took {worst.mean():.1f} s"
        )

    @property
    def checked(self) -> CheckedAnswer:
        """The time that the predicted best placement saved, compared with random placements."""
        drawn = self.totals["placement"].str.startswith(RANDOM)
        predicted = self._saving("predicted", drawn)
        return CheckedAnswer(
            tasks=self.tasks,
            draws=int(drawn.sum()),
            saved_against_random=self._saving("measured", drawn),
            predicted=predicted if np.isfinite(predicted.seconds) else None,
        )

    def _saving(self, how: str, drawn: pd.Series) -> SavingAnswer:
        took = float(self.totals[how][self.totals["placement"] == BEST].mean())
        random = float(self.totals[how][drawn].mean())
        return SavingAnswer(seconds=random - took, share=1 - took / random)


def checked_on(machine: str, directory: Path = PLACEMENTS) -> CheckedAnswer | None:
    """Return the measured saving of a plan for `machine`; None if no plan was measured there."""
    if not (directory / PLACEMENTS_FILE).is_file():
        return None
    found = read_measured(directory)
    return found.checked if found.plan.machine == machine else None


def _chance(took: float, drawn: pd.Series) -> str:
    """Say that a difference may be chance where placements at random differ by as much."""
    return ", which differ by as much" if abs(took - drawn.mean()) <= ERRORS * drawn.std() else ""


def plan_of(path: Path) -> PlaceAnswer:
    """Read what ``perfjudge corun place --json`` wrote."""
    try:
        return PlaceAnswer.model_validate(content_of(path))
    except ValidationError as exc:
        problem = f"is no placement that perfjudge corun place --json wrote ({said(exc)})"
        raise InputError(problem, file=path) from exc


def read_measured(directory: Path) -> MeasuredPlacements:
    """Read what ``perfjudge corun measure`` wrote."""
    plan, rows = plan_of(directory / PLAN), read_table(directory / PLACEMENTS_FILE, PLACEMENT_DTYPES)
    runs = rows.groupby(["placement", "repetition"], sort=True)["corun_seconds"].sum()
    totals = runs.groupby(level=0).agg(
        measured="mean", spread=lambda values: float(np.ptp(values)) / 2, repetitions="size"
    )
    predicted = {one.name: np.nan if one.seconds is None else one.seconds for one in plan.placements}
    totals.insert(0, "predicted", [predicted.get(str(name), np.nan) for name in totals.index])
    totals["foreign"] = rows.groupby("placement")["foreign"].max()
    table = totals.reset_index().sort_values(["predicted", "placement"], ignore_index=True)
    tasks = int(rows.groupby(["placement", "repetition"]).size().iloc[0])
    return MeasuredPlacements(plan, table, tasks, str(rows["machine"].iloc[0]))


def measured_text(found: MeasuredPlacements) -> str:
    """Return predicted and measured totals as a text table, with a summary."""
    rows = [
        (
            str(row["placement"]),
            "-" if np.isnan(row["predicted"]) else f"{row['predicted']:.1f}",
            f"{row['measured']:.1f}",
            f"\N{PLUS-MINUS SIGN} {row['spread']:.1f}" if row["repetitions"] > 1 else "-",
        )
        for row in found.totals.to_dict("records")
    ]
    numbers = ("predicted", "measured", "repetitions differ by")
    caption = f"{found.tasks} tasks on {found.machine}; seconds of run time in all"
    return f"{tabulated(('placement', *numbers), rows, numbers=numbers, caption=caption)}{found.told}\n"


Floats = NDArray[np.float64]
#: Placements at random that a total is compared with.
DRAWS = 1000
#: Number of random placements to measure along with the best and the worst.
LISTED = 5


def place(tasks: Sequence[str], room: Room, machine: str | None, static: Static, seed: int) -> PlaceAnswer:
    """Place tasks on equal machines."""
    meant = machine_of(machine, static)
    everyone = tuple(tasks) or tuple(sorted(static.known.on.get(meant, ())))
    if not everyone:
        raise InputError(f'no task ran alone on "{meant}"; name the tasks to place')
    source = require(everyone, meant, static)[0]
    room.require(len(everyone))
    names, numbers = np.unique(np.array(everyone, np.str_), return_inverse=True)
    predicted = impacts(names.tolist(), source, static)[np.ix_(numbers, numbers)]
    known = {name: static.known.seconds(meant, name) for name in names.tolist()}
    seconds = np.array([known[task] for task in everyone])
    cost = placement.pairwise(predicted - 1)
    longer = placement.pairwise((predicted - 1) * seconds[:, None])
    alone, number = float(seconds.sum()), len(everyone)

    def put(name: str, found: Placement) -> PlacementAnswer:
        groups = [[everyone[task] for task in group] for group in found.groups]
        total = finite(alone + placement.total(list(found.groups), longer))
        return PlacementAnswer(name=name, groups=groups, slowdown=found.total, seconds=total)

    best = placement.best(number, room, cost, seed)
    first, last = put("best", best), put("worst", placement.worst(number, room, cost, seed))
    drawn = placement.drawn(number, room, cost, LISTED, seed)
    totals, times = (placement.random(number, room, one, DRAWS, seed) for one in (cost, longer))
    random = _random(totals, alone + times)
    return PlaceAnswer(
        model=static.ref.answer,
        machine=meant,
        machines=room.machines,
        slots=room.slots,
        exact=best.exact,
        saved_against_random=_saving(first.seconds, random.seconds),
        saved_against_worst=_saving(first.seconds, last.seconds),
        random=random,
        placements=[first, *(put(f"random-{place}", one) for place, one in enumerate(drawn, 1)), last],
        notes=_notes(everyone, meant, source, room, static),
    )


def _random(totals: Floats, times: Floats) -> RandomAnswer:
    (low, high), (shortest, longest) = (np.quantile(one, (0.05, 0.95)) for one in (totals, times))
    return RandomAnswer(
        draws=len(totals),
        mean=totals.mean(),
        low=low,
        high=high,
        seconds=finite(times.mean()),
        seconds_low=finite(shortest),
        seconds_high=finite(longest),
    )


def _saving(seconds: float | None, against: float | None) -> SavingAnswer | None:
    """Return what `seconds` save of `against`; None where a solo time is unknown."""
    if seconds is None or against is None:
        return None
    return SavingAnswer(seconds=against - seconds, share=1 - seconds / against)


def _notes(tasks: Sequence[str], machine: str, source: str, room: Room, static: Static) -> list[str]:
    notes = []
    if machine not in static.card.machines:
        told = f'the model was not trained on the machine "{machine}"'
        notes.append(told if source == machine else f'{told}; the solo runs are those of "{source}"')
    strangers = [task for task in dict.fromkeys(tasks) if task not in static.card.tasks]
    if strangers:
        notes.append(f"the model was not trained on {', '.join(strangers)}")
    if room.slots > 2:  # noqa: PLR2004 - more than a pair
        notes.append("slow-downs by several co-runners are added up from pairs")
    return notes
