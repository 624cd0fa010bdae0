"""The champion's worst predictions of held-out co-runs, beside the range of their repeated measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.corun.tables import AND
from features.corun.rates import CORUN, Placed
from serving.corun.evaluated import EvaluatedCoruns, rows_with
from serving.reports.chart_marks import WORST, Dots, Line
from serving.reports.charts import Chart, Words, percent, with_noun
from serving.reports.evaluation_files import largest_errors
from serving.reports.panels import Axis, Mark, Panel, draw_chart
from serving.reports.separation import common_causes

#: Maximal number of worst cases.
MAX_CASES = 20


@dataclass(frozen=True)
class WorstCorun:
    """A held-out co-run with a large error, and the impacts of its single measurements."""

    task: str
    corunners: str
    machine: str
    measured: float
    predicted: float
    low: float
    high: float
    impacts: tuple[float, ...]

    @property
    def error(self) -> float:
        """Predicted / measured impact - 1."""
        return self.predicted / self.measured - 1

    @property
    def undecidable(self) -> bool:
        """Whether repeated measurements vary as much as the prediction is wrong; False without repetitions.

        True if the prediction is within their range, or if the error is not larger than the largest relative
        deviation of a measurement from the median of the others.
        """
        if len(self.impacts) < 2:  # noqa: PLR2004 - a repetition
            return False
        deviations = [
            abs(impact / np.median(np.delete(self.impacts, place)) - 1)
            for place, impact in enumerate(self.impacts)
        ]
        within = min(self.impacts) <= self.predicted <= max(self.impacts)
        return bool(within or abs(self.error) <= max(deviations))


@dataclass(frozen=True)
class WorstCoruns:
    """The co-runs with the largest errors, a sentence on their common causes, and their chart."""

    cases: tuple[WorstCorun, ...]
    causes: str
    chart: Chart

    @classmethod
    def from_evaluation(cls, evaluation: EvaluatedCoruns) -> WorstCoruns | None:
        """Return the champion's 20 worst predictions in the main design; None without predictions."""
        metrics, pairs = evaluation.metrics, evaluation.tables.pairs
        runs = Placed.from_pairs(pairs).as_columns.assign(seconds=pairs["corun_seconds"].to_numpy(np.float64))
        runs = runs.merge(evaluation.instances[[*CORUN, "solo_seconds"]], on=CORUN)
        runs = runs.assign(impact=runs["seconds"] / runs["solo_seconds"])
        predictions = rows_with(evaluation.oof, model=metrics.champion, design=metrics.main)
        return cls.from_predictions(predictions, runs)

    @classmethod
    def from_predictions(cls, predictions: pd.DataFrame, runs: pd.DataFrame) -> WorstCoruns | None:
        """Return the 20 predictions with the largest relative errors, the largest first; None without any.

        `predictions`: one model's rows in one design, ``task, corunners, machine, measured, predicted, low,
        high``, with a unique index. `runs`: a row per measurement, ``task, corunners, machine, impact``.
        """
        errors = (predictions["predicted"] / predictions["measured"] - 1).abs()
        worst = largest_errors(predictions, errors, MAX_CASES)
        if worst.empty:
            return None
        impacts = runs.groupby(CORUN)["impact"].agg(tuple)
        columns = [*CORUN, "measured", "predicted", "low", "high"]
        cases = tuple(
            WorstCorun(**row, impacts=impacts.get(tuple(row[key] for key in CORUN), ()))
            for row in worst[columns].to_dict("records")
        )
        beside = predictions["corunners"].str.get_dummies(AND)
        # a column per co-runner, because a co-run may have several
        named = beside.apply(lambda column: column.map({0: "", 1: column.name})).add_prefix("with ")
        names = {"task": "task", **dict.fromkeys(named.columns, "co-runner"), "machine": "machine"}
        everything = predictions.join(named)
        causes = common_causes(everything.loc[worst.index], everything, names, "co-runs")
        return cls(cases, causes, worst_coruns_chart(cases))

    @property
    def measured_once(self) -> int:
        """The number of these co-runs without repeated measurements."""
        return sum(len(case.impacts) < 2 for case in self.cases)  # noqa: PLR2004 - a repetition


def worst_coruns_chart(cases: Sequence[WorstCorun]) -> Chart:
    """Return a chart of measured and predicted impacts, a row per co-run, with ranges of measurements."""
    errors = [abs(case.error) for case in cases]
    high = sum(case.error > 0 for case in cases)
    undecidable = sum(case.undecidable for case in cases)
    title = (
        f"The {with_noun(len(cases), 'largest error')} of held-out co-runs: {percent(min(errors))} to "
        f"{percent(max(errors))}. The model predicts {high} of these impacts too high, {len(cases) - high} "
        f"too low; {undecidable or 'none'} of them {'are' if undecidable > 1 else 'is'} marked as not "
        "decidable"
    )
    note = (
        "Lines span the repeated measurements of a co-run. Without a line, it was measured once, or with "
        "nearly equal results (see the table). The measured impact is the median of the measurements. "
        "Largest error at the top."
    )
    names = [
        f"{case.task} with {case.corunners}{' (not decidable)' if case.undecidable else ''}" for case in cases
    ]
    ranges = np.array([
        (place, min(case.impacts), max(case.impacts))
        for place, case in enumerate(cases)
        if len(case.impacts) > 1
    ]).reshape(-1, 3)  # fmt: skip
    rows, middles, reach = ranges[:, 0], ranges[:, 1:].mean(axis=1), np.ptp(ranges[:, 1:], axis=1) / 2
    marks: list[Mark] = [
        Line("", middles, rows, sideways=reach, joined=False, marked=False),
        Dots([case.measured for case in cases], range(len(cases)), "measured"),
        Dots([case.predicted for case in cases], range(len(cases)), "predicted", **WORST),
    ]
    panel = Panel(marks, Axis("impact (co-run time / time alone)"), Axis("co-run", names))
    shows = "Measured and predicted impacts of the co-runs with the largest errors, a row each"
    return draw_chart(Words("worst", title, shows, note), [panel], (8.4, 1.3 + 0.22 * len(cases)))
