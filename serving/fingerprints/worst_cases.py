"""The worst predictions for machines of held-out CPU models, beside the range of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from serving.reports.chart_marks import WORST, Dots
from serving.reports.charts import Chart, Words, plain_number, with_noun
from serving.reports.evaluation_files import dtypes_of, largest_errors
from serving.reports.panels import Axis, Panel, draw_chart
from serving.reports.separation import common_causes

#: Columns of the held-out predictions, and the entry that the page shows.
PREDICTIONS = dtypes_of(str="application entry machine cpu_model", int64="fold", float64="value predicted")
ENTRY = "ensemble"
#: Maximal number of worst cases.
MAX_CASES = 20


@dataclass(frozen=True)
class WorstPrediction:
    """A prediction for a machine of a held-out CPU model, and the application's range in training."""

    application: str
    machine: str
    cpu_model: str
    metric: str
    value: float  # measured performance
    predicted: float
    smallest: float  # measured performance on the machines of the training data; NaN without any
    largest: float

    @property
    def error_factor(self) -> float:
        """The larger of predicted / measured and measured / predicted performance."""
        return max(self.predicted / self.value, self.value / self.predicted)

    @property
    def excess(self) -> float:
        """Relative distance of the measured performance from the training range; 0 if it is inside.

        Also 0 if the prediction is even further outside on that side.
        """
        if self.value < self.smallest and self.value < self.predicted:
            return self.smallest / self.value - 1
        if self.value > self.largest and self.value > self.predicted:
            return self.value / self.largest - 1
        return 0.0


@dataclass(frozen=True)
class WorstPredictions:
    """The predictions with the largest error factors, sentences on their common causes, and their chart."""

    cases: tuple[WorstPrediction, ...]
    causes: str
    chart: Chart

    @classmethod
    def from_predictions(cls, predictions: pd.DataFrame, metrics: pd.Series) -> WorstPredictions | None:
        """Return the 20 worst predictions of `ENTRY`, the largest error factor first; None without any.

        `predictions`: a row per entry, application and machine, with the columns `PREDICTIONS`; ``value`` is
        the measured performance. `metrics`: name of the performance metric, by application.
        """
        rows = predictions[predictions["entry"] == ENTRY].reset_index(drop=True)
        worst = largest_errors(rows, np.log(rows["predicted"] / rows["value"]).abs(), MAX_CASES)
        if worst.empty:
            return None
        cases = []
        for row in worst.to_dict("records"):
            application = row["application"]
            is_training = (rows["application"] == application) & (rows["fold"] != row["fold"])
            training = rows.loc[is_training, "value"]
            about = application, row["machine"], row["cpu_model"], metrics[application]
            ends = float(training.min()), float(training.max())
            cases.append(WorstPrediction(*about, row["value"], row["predicted"], *ends))
        names = {"application": "application", "machine": "machine", "cpu_model": "CPU model"}
        causes = common_causes(worst, rows, names, "predictions")
        return cls(tuple(cases), causes, worst_predictions_chart(cases))


def worst_predictions_chart(cases: Sequence[WorstPrediction]) -> Chart:
    """Return a chart of measured and predicted performance, a row per prediction, on a logarithmic axis."""
    factors = [plain_number(choose(case.error_factor for case in cases), 2) for choose in (min, max)]
    high = sum(case.predicted > case.value for case in cases)
    marked = sum(case.excess > 0 for case in cases)
    title = (
        f"The {with_noun(len(cases), 'largest error')} on held-out CPU models: factors of {factors[0]} to "
        f"{factors[1]}. {high} of these predictions are too high, {len(cases) - high} too low; "
        f"{marked or 'none'} of them {'are' if marked > 1 else 'is'} marked as partly not decidable"
    )
    note = (
        "Numbers are those of the table, where the machines are named. Largest error at the top. *: partly "
        "not decidable by these data."
    )
    names = [
        f"{number} {case.application}{' *' if case.excess else ''}" for number, case in enumerate(cases, 1)
    ]
    machines, rows = [f"measured on {case.machine}" for case in cases], range(len(cases))
    measured = Dots([case.value for case in cases], rows, "measured", point_names=machines)
    predicted = Dots([case.predicted for case in cases], rows, "predicted", **WORST)
    metrics = ", ".join(sorted({case.metric for case in cases}))
    performance = Axis(f"performance ({metrics}; log scale)", log=True)
    panel = Panel([measured, predicted], performance, Axis("prediction", names))
    shows = "Measured and predicted performance of the predictions with the largest errors, a row each"
    return draw_chart(Words("worst", title, shows, note), [panel], (8.4, 1.3 + 0.22 * len(cases)))
