"""What a plan saved when it was run stands beside what it promised."""

from pathlib import Path

import pandas as pd
import pytest

from serving.corun.place import MeasuredPlacements, checked_on
from serving.corun.schemas import PlaceAnswer, RandomAnswer
from serving.http.schemas import ModelAnswer


def run(predicted: float) -> MeasuredPlacements:
    """Return one plan whose best placement was predicted to take so many seconds, and took 95."""
    plan = PlaceAnswer(
        model=ModelAnswer(name="m", version="1", uri="u"), machine="here", machines=2, slots=2, exact=True,
        random=RandomAnswer(draws=2, mean=0.0, low=0.0, high=0.0), placements=[], notes=[],
    )  # fmt: skip
    names = ["best", "random-1", "random-2", "worst"]
    totals = pd.DataFrame(
        {"placement": names, "predicted": [predicted, 99.0, 101.0, 120.0], "measured": [95.0, 99, 97, 99]}
    )
    return MeasuredPlacements(plan, totals, 4, "here")


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    checked = run(80.0).checked
    assert (checked.tasks, checked.draws) == (4, 2)
    assert checked.saved_against_random.seconds == pytest.approx(3.0)
    assert checked.saved_against_random.share == pytest.approx(3 / 98)
    assert checked.predicted is not None
    assert checked.predicted.share == pytest.approx(0.2)


def test_nothing_was_predicted_where_run_times_were_not_known() -> None:
    assert run(float("nan")).checked.predicted is None


def test_nothing_is_said_where_nothing_was_run(tmp_path: Path) -> None:
    assert checked_on("here", tmp_path) is None
