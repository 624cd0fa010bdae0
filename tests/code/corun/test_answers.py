"""Pieces of the answers about co-runs, on numbers that can be checked by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.corun.collect import plan_placements
from data.corun.synonyms import IntervalCounts
from data.errors import InputError
from serving.corun.charts import events_chart, heat_map, trend_chart
from serving.corun.evaluated import TABLES, EvaluatedCoruns, check_placements
from serving.corun.online_answer import usable_samples
from serving.corun.place import MeasuredPlacements, measured_saving_on
from serving.corun.schemas import PlaceAnswer, RandomAnswer
from serving.http.schemas import ModelAnswer
from tests.system.corun import inputs
from training.corun.stored import OnlineCard

NAN = float("nan")


def samples(ends, **counts):
    return IntervalCounts.from_table(pd.DataFrame({"t_seconds": ends, **counts}))


def test_samples_without_flaws_are_used_unchanged():
    given = samples([0.2, 0.4, 0.6], own=[1.0, 2.0, 3.0], instructions=[9.0, 9.0, 9.0])
    found = usable_samples(given, "f", ["own"])
    for used in (found.table, found.stretch):
        assert used.events == ("own", "instructions")
        assert used.ends.tolist() == [0.2, 0.4, 0.6]
        assert used.counts.tolist() == [[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        ([0.2, 0.4, 0.6, 1.6, 1.8], [0.2, 0.4, 0.6]),
        ([0.2, 1.2, 1.4, 1.6, 1.8], [0.2, 0.4, 0.6]),
        ([5.0, 5.2, 5.4], [0.2, 0.4, 0.6]),
    ],
    ids=["gap late", "gap early", "a late start is no gap"],
)
def test_only_the_longest_gapless_stretch_is_used(ends, left):
    found = usable_samples(samples(ends, instructions=[1.0] * len(ends)), "f")
    assert found.stretch.ends.tolist() == pytest.approx(left)
    assert len(found.notes) == (left[-1] < 1 < ends[-1] < 5)


def test_events_are_recognised_by_their_short_names():
    found = usable_samples(samples([0.2, 0.4], cycles=[5.0, 6.0]), "f", ["cpu-cycles"])
    assert found.table.counts_of("cpu-cycles").tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (samples([0.2, 0.2], faults=[1.0, 1.0]), "f row 2: t_seconds=0.2 must be after 0.2 s"),
        (samples([0.0, 0.4], faults=[1.0, 1.0]), "f row 1: t_seconds=0 must be above 0"),
        (samples([0.2, 0.4], faults=[1.0, -1.0]), "f row 2: faults=-1 must be 0 or more"),
        (
            samples([0.2, 0.4], faults=[NAN, NAN]),
            "f: counts none of instructions, cycles or task-clock, nor any event of the model",
        ),
        (samples([0.1, 0.2], faults=[1.0, 1.0]), "f: 0.2 s of samples are too few"),
    ],
)
def test_errors_of_unusable_samples_name_the_place(given, told):
    with pytest.raises(InputError, match=told):
        usable_samples(given, "f", ["faults"])


def test_a_partly_counted_event_is_kept_with_a_note():
    found = usable_samples(
        samples([0.2, 0.4, 0.6], faults=[1.0, NAN, 3.0], cycles=[1.0, 1.0, 1.0]), "f", ["faults"]
    )
    assert found.notes == ("f: did not count faults in every interval; the others are used",)


def test_intervals_without_any_count_are_filled_with_zero():
    found = usable_samples(samples([0.2, 0.4, 0.6], instructions=[1.0, NAN, 3.0], cs=[1.0, NAN, 0.0]), "f")
    assert found.table.counts_of("instructions").tolist() == [1.0, 0.0, 3.0]
    assert found.notes == ()


def test_unknown_events_are_listed_with_the_nearest_known():
    given = samples([0.2, 0.4], instrutions=[1.0, 1.0], zzz=[1.0, 1.0], cycles=[1.0, 1.0])
    (note,) = usable_samples(given, "f").notes
    assert note == "f: unknown events instrutions (did you mean instructions?), zzz"
    with pytest.raises(InputError, match="did you mean instructions"):
        usable_samples(given.select_events(np.array([True, False, False])), "f")


def card(**changes):
    given = {
        "model": "svm", "events": ("a", "b"), "coefficients": ((0.0, 0.0), (0.0, 0.0)), "seconds": 2.0,
        "half_widths": {"0.4": 0.04, "1": 0.05, "2": 0.02, "10": 0.01}, "blind_half_width": 0.2,
        "machines": ("m",), "data_digest": "", "seed": 1, "confidence": 0.9,
    }  # fmt: skip
    return OnlineCard(**given | changes)


@pytest.mark.parametrize(
    ("machine", "seconds", "missing", "width"),
    [
        ("m", 2.0, 0.0, 0.02),
        (None, 2.0, 0.0, 0.02),
        ("m", 1.9, 0.0, 0.05),
        ("m", 0.5, 0.0, 0.05),  # fewer seconds never make an answer surer
        ("m", 2.0, 0.5, 0.11),
        ("m", 2.0, 1.0, 0.2),
        ("other", 2.0, 0.0, 0.04),
    ],
)
def test_the_interval_widens_with_missing_events(machine, seconds, missing, width):
    assert card().half_width(machine, seconds, missing) == pytest.approx(width)


def test_a_predicted_placement_is_evaluated_with_measurements():
    tasks = list("abcd")
    real = pd.DataFrame(1.0, tasks, tasks)
    real.loc["a", "b"] = real.loc["c", "d"] = 2.0
    said = pd.DataFrame(1.0, tasks, tasks)
    said.loc["a", "c"] = said.loc["a", "d"] = 3.0
    found = check_placements(said, real, pd.Series(10.0, tasks), seed=1)
    # misled, it puts a beside b and hence c beside d
    assert (found.chosen, found.best, found.worst) == (60.0, 40.0, 60.0)
    assert set(found.random.tolist()) == {40.0, 60.0}
    assert found.chosen_saving < 0 < found.best_saving


def test_incompletely_measured_pairs_are_not_placed():
    tasks = list("abcd")
    real = pd.DataFrame(1.0, tasks, tasks)
    real.loc["a", "b"] = np.nan
    assert check_placements(real, real, pd.Series(1.0, tasks), seed=1) is None


def test_every_repetition_interleaves_the_groups_of_all_placements():
    placements = [(name, [["a", "b"], ["c"]]) for name in ("best", "random-1", "worst")]
    planned = plan_placements(placements, 2, seed=3)
    first, second = planned[:6], planned[6:]
    assert {one.repetition for one in first} == {1}
    for block in (first, second):
        assert {(one.placement, one.group) for one in block} == {
            (name, group) for name in ("best", "random-1", "worst") for group in (1, 2)
        }
    assert [one.placement for one in first] != sorted(one.placement for one in first)
    assert planned == plan_placements(placements, 2, seed=3)


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


def test_measured_costs_are_reported_beside_predictions() -> None:
    checked = run(80.0).measured_saving
    assert (checked.tasks, checked.draws) == (4, 2)
    assert checked.saved_against_random.seconds == pytest.approx(3.0)
    assert checked.saved_against_random.share == pytest.approx(3 / 98)
    assert checked.predicted is not None
    assert checked.predicted.share == pytest.approx(0.2)


def test_unknown_run_times_give_no_prediction() -> None:
    assert run(float("nan")).measured_saving.predicted is None


def test_without_runs_there_is_no_report(tmp_path: Path) -> None:
    assert measured_saving_on("here", tmp_path) is None


@pytest.mark.parametrize("corunners", ["task-1", "task-1+task-2"])
def test_charts_of_pairs_are_left_out_without_pairs(corunners):
    given, is_pair = inputs.tables(3), "+" not in corunners
    samples = given.samples.assign(corunners=given.samples["corunners"].replace("task-1", corunners))
    row = {"task": "task-0", "corunners": corunners, "machine": inputs.MACHINE, "impact": 1.2}
    evaluation = EvaluatedCoruns(
        metrics=None, tables=replace(given, samples=samples), notes=(), instances=pd.DataFrame([row]),
        placements=None, **dict.fromkeys(TABLES),
    )  # fmt: skip
    assert [draw(evaluation) is not None for draw in (heat_map, events_chart, trend_chart)] == [
        is_pair, is_pair, True,
    ]  # fmt: skip
