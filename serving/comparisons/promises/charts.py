"""What probabilities are worth, and what a person's looks save: charts of held-out verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pydantic import BaseModel

from serving.pages.charts import Chart, Words, counted, percent
from serving.pages.marks import Dots, Line
from serving.pages.panels import Axis, Mark, Panel, drawn
from training.evaluation.plots import reliability


class Rates(BaseModel):
    """What cuts did, over the folds.

    Attributes
    ----------
    share : float
        What was asked for.
    folds, made, held : int
        Of so many folds, in how many it could be promised, and in how many of these it held.
    missed, false_alarms, unsure : float
        Of the fails, of the passes, of all.
    """

    share: float
    folds: int
    made: int
    held: int
    missed: float
    false_alarms: float
    unsure: float


class ModelPromises(BaseModel):
    """What metrics.json says of a model's probabilities and promises."""

    calibration_error: float
    chosen: list[Rates]
    missed: list[Rates]
    false_alarms: list[Rates]
    sent: list[Rates]


def reliability_chart(verdicts: pd.DataFrame, champion: str, error: float) -> Chart:
    """Draw the share of fails by the probability that was told.

    Parameters
    ----------
    verdicts : DataFrame
        The champion's, on held-out folds.
    champion : str
    error : float
        The expected calibration error.
    """
    ranges = reliability(verdicts)
    title = f"What {champion} calls a probability is off by {percent(error)} in the mean"
    note = (
        "A dot a tenth of the scale, the larger the more comparisons; on the line, of comparisons with a "
        "probability of 30 % three in ten are regressions. The mean of the distances, weighted by "
        "comparisons, is the expected calibration error."
    )
    sizes = 20 + 200 * ranges["cases"] / ranges["cases"].max()
    marks: list[Mark] = [
        Line("as it should be", [0.0, 1.0], [0.0, 1.0], 1, marked=False),
        *(
            Dots(
                [one.probability],
                [one.share_of_fails],
                told=[counted(int(one.cases), "comparison")],
                size=float(size),
            )
            for one, size in zip(ranges.itertuples(), sizes, strict=True)
        ),
    ]
    x = Axis("probability (mean of a range)", percent=True, low=-0.04, high=1.04)
    y = Axis("regressions (% of the comparisons there)", percent=True, low=-0.04, high=1.04)
    words = Words("reliability", title, "Share of regressions by the probability that was told", note)
    return drawn(words, [Panel(marks, x, y)], (4.6, 3.9))


def looks_chart(sent: Sequence[Rates]) -> Chart:
    """Draw misses and false alarms by the share of comparisons that a person looks at."""
    unsure, missed, alarms = (np.array([getattr(one, name) for one in sent]) for name in _SENT)
    best = sent[int(np.abs(unsure - _TOLD).argmin())]
    title = (
        f"With {percent(best.unsure)} of the comparisons sent to a person, {percent(best.missed)} of the "
        f"regressions are missed at {percent(best.false_alarms)} false alarms"
    )
    note = "Sent are the comparisons that are most worth a look, by shares from inside."
    words = Words("looks", title, "Misses and false alarms by the share that is sent to a person", note)
    lines = [Line("missed", unsure, missed, 0), Line("false alarms", unsure, alarms, 3)]
    x = Axis("unsure (% of the comparisons)", percent=True)
    y = Axis("wrong (% of the regressions, % of the others)", percent=True, low=0.0)
    return drawn(words, [Panel(lines, x, y)], (8.4, 3.7))


_SENT = ("unsure", "missed", "false_alarms")
#: The share that the title tells of, or the nearest.
_TOLD = 0.05
