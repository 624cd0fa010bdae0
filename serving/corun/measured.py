"""What placements were predicted to take, and what they really took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import ValidationError

from data.corun.placements import DTYPES, FILE
from data.errors import InputError
from data.tables.files import content_of
from data.tables.given import said
from data.tables.specs import read_table
from serving.corun.schemas import CheckedAnswer, PlaceAnswer, SavingAnswer
from serving.pages.apart import ERRORS
from serving.pages.tables import tabulated

#: Where the measured placements of a project lie.
PLACEMENTS = Path("data/raw/placements")
PLAN = "plan.json"
BEST, WORST, RANDOM = "best", "worst", "random-"


@dataclass(frozen=True)
class MeasuredPlacements:
    """Placements that were really run.

    Attributes
    ----------
    plan : PlaceAnswer
    totals : DataFrame
        ``placement, predicted`` (seconds over all tasks; NaN where unknown)``, measured`` (mean over the
        repetitions)``, spread`` (half of what the repetitions differ by)``, repetitions, foreign`` (the
        largest share of the machine that others used), best first.
    tasks : int
    machine : str
    """

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
        """What the predicted best saved of the run time of those at random."""
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
    """Return what a plan for `machine` saved when it was run; None where none was.

    Raises
    ------
    InputError
        If one of the files is broken.
    """
    if not (directory / FILE).is_file():
        return None
    found = read_measured(directory)
    return found.checked if found.plan.machine == machine else None


def _chance(took: float, drawn: pd.Series) -> str:
    """Say that a difference may be chance where placements at random differ by as much."""
    return ", which differ by as much" if abs(took - drawn.mean()) <= ERRORS * drawn.std() else ""


def plan_of(path: Path) -> PlaceAnswer:
    """Read what ``perfjudge corun place --json`` wrote.

    Raises
    ------
    InputError
        If the file cannot be read or is something else.
    """
    try:
        return PlaceAnswer.model_validate(content_of(path))
    except ValidationError as exc:
        problem = f"is no placement that perfjudge corun place --json wrote ({said(exc)})"
        raise InputError(problem, file=path) from exc


def read_measured(directory: Path) -> MeasuredPlacements:
    """Read what ``perfjudge corun measure`` wrote.

    Raises
    ------
    InputError
        If one of its files is missing or broken.
    """
    plan, rows = plan_of(directory / PLAN), read_table(directory / FILE, DTYPES)
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
    """Return what was predicted and measured as a table, and what it says."""
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
