"""Pieces of the answers about co-runs, on numbers that can be checked by hand."""

import shutil
from dataclasses import replace
from functools import cache, partial
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

from data.corun.collect import plan_placements
from data.corun.synonyms import IntervalCounts
from serving.corun.charts import events_chart, heat_map, trend_chart
from serving.corun.evaluated import TABLES, EvaluatedCoruns, check_placements
from serving.corun.online_answer import predict_online, usable_samples
from serving.corun.place import (
    PLACEMENTS,
    PLACEMENTS_FILE,
    MeasuredPlacements,
    measured_saving_on,
    read_measured,
)
from serving.corun.schemas import PlaceAnswer, RandomAnswer
from serving.corun.static import add_slowdowns
from serving.corun.worst_cases import WorstCoruns
from serving.http.schemas import ModelAnswer
from tests.data.refusals import refusal
from tests.imports import ROOT
from tests.system.corun import inputs
from training.corun.placement import Room, best_placement, pairwise_cost, random_totals, worst_placement
from training.corun.stored import OnlineCard

SPACE = "\N{NO-BREAK SPACE}"


def samples(ends, **counts):
    return IntervalCounts.from_table(pd.DataFrame({"t_seconds": ends, **counts}))


PARTLY = "f: did not count own in every interval; the others are used"


@pytest.mark.parametrize(
    ("counts", "event", "used", "notes"),
    [
        ({"own": [1.0, 2.0, 3.0]}, "own", [1.0, 2.0, 3.0], []),
        ({"cycles": [5.0, 6.0, 7.0]}, "cpu-cycles", [5.0, 6.0, 7.0], []),
        ({"own": [1.0, None, 3.0]}, "own", [1.0, None, 3.0], [PARTLY]),
        ({"instructions": [1.0, None, 3.0], "own": [1.0, None, 0.0]}, "instructions", [1.0, 0.0, 3.0], []),
    ],
    ids=["without flaws", "a short name", "partly counted", "intervals without any count"],
)
def test_counts_of_intervals_are_used_with_notes_on_flaws(counts, event, used, notes):
    given = samples([0.2, 0.4, 0.6], **{"instructions": [9.0] * 3} | counts)
    found = usable_samples(given, "f", ["own", "cpu-cycles"])
    for part in (found.table, found.stretch):
        assert part.ends.tolist() == [0.2, 0.4, 0.6]
        np.testing.assert_array_equal(part.counts_of(event), np.array(used, float))
    assert [*found.notes] == notes


@pytest.mark.parametrize(
    ("ends", "notes"),
    [([0.2, 0.4, 0.6, 1.6, 1.8], 1), ([0.2, 1.2, 1.4, 1.6, 1.8], 1), ([5.0, 5.2, 5.4], 0)],
    ids=["gap late", "gap early", "a late start is no gap"],
)
def test_only_the_longest_gapless_stretch_is_used(ends, notes):
    found = usable_samples(samples(ends, instructions=[1.0] * len(ends)), "f")
    assert found.stretch.ends.tolist() == pytest.approx([0.2, 0.4, 0.6])
    assert len(found.notes) == notes


@pytest.mark.parametrize(
    ("ends", "faults", "told"),
    [
        ([0.2, 0.2], [1.0, 1.0], "f row 2: t_seconds=0.2 must be after 0.2 s"),
        ([0.0, 0.4], [1.0, 1.0], "f row 1: t_seconds=0 must be above 0"),
        ([0.2, 0.4], [None, None], "f: counts none of instructions, cycles or task-clock, nor any event of"),
        ([0.1, 0.2], [1.0, 1.0], "f: 0.2 s of samples are too few"),
    ],
)
def test_errors_of_unusable_samples_name_the_place(ends, faults, told):
    given = samples(ends, faults=np.array(faults, float))
    assert refusal(usable_samples, given, "f", ["faults"]).startswith(told)


def test_unknown_events_are_listed_with_the_nearest_known():
    given = samples([0.2, 0.4], instrutions=[1.0, 1.0], zzz=[1.0, 1.0], cycles=[1.0, 1.0])
    (note,) = usable_samples(given, "f").notes
    assert note == "f: unknown events instrutions (did you mean instructions?), zzz"
    alone = given.select_events(np.array([True, False, False]))
    assert "did you mean instructions" in refusal(usable_samples, alone, "f")


@pytest.mark.parametrize(
    ("machine", "seconds", "missing", "width"),
    [
        (None, 2.0, 0.0, 0.02),
        ("m", 1.9, 0.0, 0.05),
        ("m", 0.5, 0.0, 0.05),  # fewer seconds never make an answer surer
        ("m", 2.0, 0.5, 0.11),
        ("m", 2.0, 1.0, 0.2),
        ("other", 2.0, 0.0, 0.04),
    ],
)
def test_the_interval_widens_with_missing_events(machine, seconds, missing, width):
    card = OnlineCard(
        model="svm", events=("a", "b"), coefficients=((0.0, 0.0), (0.0, 0.0)), seconds=2.0,
        half_widths={"0.4": 0.04, "1": 0.05, "2": 0.02, "10": 0.01}, blind_half_width=0.2, machines=("m",),
        data_digest="", seed=1, confidence=0.9,
    )  # fmt: skip
    assert card.half_width(machine, seconds, missing) == pytest.approx(width)


def every_total(slowdown, room):
    """Return the total of every placement, by trying all orders of the tasks and of the empty slots."""
    cost, tasks = pairwise_cost(slowdown), len(slowdown)

    @cache
    def of_machine(machine):
        return float(cost([[task for task in machine if task < tasks]])[0])

    slots = room.machines * room.slots
    machines = [slice(begin, begin + room.slots) for begin in range(0, slots, room.slots)]
    return [sum(of_machine(order[machine]) for machine in machines) for order in permutations(range(slots))]


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_slowdowns_of_a_group_add_up_as_those_of_several_co_runners(slots):
    slowdown = np.random.default_rng(slots).random((6, 6)) - 0.5
    group = (5, 0, 3, 1, 4)[:slots]
    impacts = [[1 + slowdown[task, other] for other in group if other != task] for task in group]
    expected = sum(add_slowdowns(np.array(of_task)) - 1 for of_task in impacts) if slots > 1 else 0.0
    assert pairwise_cost(slowdown)([(), group, (2,)]).tolist() == [0.0, pytest.approx(float(expected)), 0.0]


@pytest.mark.parametrize(
    ("tasks", "machines", "slots"), [(6, 3, 2), (6, 2, 3), (8, 2, 4), (3, 2, 2), (4, 3, 2), (5, 2, 3)]
)
def test_best_and_worst_placements_match_an_exhaustive_search(tasks, machines, slots):
    # some tasks are quicker beside others
    slowdown = np.random.default_rng(tasks).random((tasks, tasks)) - 0.3
    room, cost = Room(machines, slots), pairwise_cost(slowdown)
    totals = every_total(slowdown, room)
    best = best_placement(tasks, room, cost)
    assert (best.total, best.exact) == (pytest.approx(min(totals)), slots <= 2)
    assert worst_placement(tasks, room, cost).total == pytest.approx(max(totals))


@pytest.mark.parametrize(
    ("tasks", "room", "message"),
    [
        (5, Room(2, 2), "5 tasks don't fit on 2 machines with 2 slots each; expected at most 4"),
        *((0, Room(2, slots), "0 tasks to place: expected at least 1") for slots in (1, 2, 3)),
        (2, Room(10**9, 10**9), "slots in all; expected at most 100000"),
        (2, Room(1, 100_001), "100001 slots in all; expected at most 100000"),
    ],
)
@pytest.mark.parametrize("place", [best_placement, worst_placement, partial(random_totals, draws=2, seed=0)])
def test_impossible_numbers_of_tasks_or_slots_are_refused(place, tasks, room, message):
    assert refusal(place, tasks, room, pairwise_cost(np.ones((tasks, tasks)))).endswith(message)


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("machines", [2, 3, 5])
def test_random_placements_lie_between_best_and_worst(machines, slots):
    slowdown = np.random.default_rng(machines).random((4, 4)) - 0.8
    room, cost = Room(machines, slots), pairwise_cost(slowdown)
    totals = random_totals(4, room, cost, draws=200, seed=1)
    assert totals.max() <= worst_placement(4, room, cost).total + 1e-9
    assert totals.min() >= best_placement(4, room, cost).total - 1e-9
    assert totals.std() > 0


@pytest.mark.parametrize("room", [Room(50_000, 2), Room(33_333, 3), Room(1, 100_000)])
def test_most_slots_do_not_slow_down_a_placement(room):
    cost = pairwise_cost(np.random.default_rng(1).random((5, 5)))
    expected = cost([range(5)])[0] if room.machines == 1 else 0
    assert best_placement(5, room, cost).total == pytest.approx(expected)


def test_a_predicted_placement_is_evaluated_with_measurements():
    tasks = list("abcd")
    real, said = (pd.DataFrame(1.0, tasks, tasks) for _ in range(2))
    real.loc["a", "b"] = real.loc["c", "d"] = 2.0
    said.loc["a", "c"] = said.loc["a", "d"] = 3.0
    found = check_placements(said, real, pd.Series(10.0, tasks), seed=1)
    # misled, it puts a beside b and hence c beside d
    assert (found.chosen, found.best, found.worst) == (60.0, 40.0, 60.0)
    assert set(found.random.tolist()) == {40.0, 60.0}
    assert found.chosen_saving < 0 < found.best_saving
    # incompletely measured pairs are not placed
    real.loc["a", "b"] = np.nan
    assert check_placements(real, real, pd.Series(1.0, tasks), seed=1) is None


def test_every_repetition_interleaves_the_groups_of_all_placements():
    placements = [(name, [["a", "b"], ["c"]]) for name in ("best", "random-1", "worst")]
    planned = plan_placements(placements, 2, seed=3)
    assert planned == plan_placements(placements, 2, seed=3)
    first, second = planned[:6], planned[6:]
    assert {one.repetition for one in first} == {1}
    everything = set(product(("best", "random-1", "worst"), (1, 2)))
    assert {(one.placement, one.group) for one in first} == everything
    assert {(one.placement, one.group) for one in second} == everything
    assert [one.placement for one in first] != sorted(one.placement for one in first)


def test_measured_costs_are_reported_beside_predictions(tmp_path):
    plan = PlaceAnswer(
        model=ModelAnswer(name="m", version="1", uri="u"), machine="here", machines=2, slots=2, exact=True,
        random=RandomAnswer(draws=2, mean=0.0, low=0.0, high=0.0), placements=[], notes=[],
    )  # fmt: skip
    totals = pd.DataFrame({
        "placement": ["best", "random-1", "random-2", "worst"],
        "predicted": [80.0, 99.0, 101.0, 120.0], "measured": [95.0, 99.0, 97.0, 99.0],
    })  # fmt: skip
    saving = MeasuredPlacements(plan, totals, 4, "here").measured_saving
    assert (saving.tasks, saving.draws) == (4, 2)
    assert saving.saved_against_random.seconds == pytest.approx(3.0)
    assert saving.saved_against_random.share == pytest.approx(3 / 98)
    assert saving.predicted.share == pytest.approx(0.2)
    # unknown run times give no prediction, and missing measurements no report
    unknown = totals.assign(predicted=totals["predicted"].replace(80.0, np.nan))
    assert MeasuredPlacements(plan, unknown, 4, "here").measured_saving.predicted is None
    assert measured_saving_on("here", tmp_path) is None


def drawn(chart, tables, corunners="task-1"):
    """Return a chart of an evaluation of one co-run of task-0."""
    row = {"task": "task-0", "corunners": corunners, "machine": inputs.MACHINE, "impact": 1.2}
    given = {"metrics": None, "notes": (), "placements": None} | dict.fromkeys(TABLES)
    return chart(EvaluatedCoruns(tables=tables, instances=pd.DataFrame([row]), **given))


@pytest.mark.parametrize("corunners", ["task-1", "task-1+task-2"])
def test_charts_of_pairs_are_left_out_without_pairs(corunners):
    given, is_pair = inputs.tables(3), "+" not in corunners
    samples = given.samples.assign(corunners=given.samples["corunners"].replace("task-1", corunners))
    tables, charts = replace(given, samples=samples), (heat_map, events_chart, trend_chart)
    assert [drawn(chart, tables, corunners) is not None for chart in charts] == [is_pair, is_pair, True]


def test_event_counts_of_a_pair_exclude_further_corunners():
    given = inputs.tables(3)
    huge = given.pairs.assign(corunner_2=None, **dict.fromkeys(given.events, 1e15))
    both = pd.concat([given.pairs.assign(corunner_2=None), huge.assign(corunner_2="task-2")])
    alone, with_third, other = (
        drawn(events_chart, replace(given, pairs=pairs)) for pairs in (given.pairs, both, huge)
    )
    assert alone == with_third != other


def test_only_complete_repetitions_of_placements_are_compared(tmp_path):
    directory = shutil.copytree(ROOT / PLACEMENTS, tmp_path / "placements")
    rows = pd.read_parquet(directory / PLACEMENTS_FILE)
    first, second = (rows.query("placement == 'best' and repetition == @number") for number in (1, 2))
    rows.drop(first.index[:2]).to_parquet(directory / PLACEMENTS_FILE)
    best = read_measured(directory).totals.set_index("placement").loc["best"]
    assert (best["repetitions"], best["measured"]) == (1, pytest.approx(second["corun_seconds"].sum()))
    rows.drop([*first.index, *second.index]).to_parquet(directory / PLACEMENTS_FILE)
    assert "no complete repetition of the best" in refusal(read_measured, directory)


@pytest.mark.parametrize(("intervals", "slower"), [(1, 40.0), (3, 5.0), (25, 1.0)])
def test_drivers_of_even_runs_are_their_rates_and_factors(slower, intervals):
    solo, corun = (
        samples(np.arange(1.0, n + 1), instructions=1e9 / by, cycles=2e9, **{"task-clock": 1000.0})
        for n, by in ((30, 1), (intervals, slower))
    )
    found = predict_online(solo, corun, None, None).attributions
    assert [one.usual for one in found] == pytest.approx([1000.0, 2e9, 1e9])
    assert [one.value for one in found] == pytest.approx([1000.0, 2e9, 1e9 / slower])
    assert [one.contribution for one in found] == pytest.approx([0, 0, slower - 1], abs=1e-6)


@pytest.mark.parametrize("ended", [None, 3.5, 12.4])
@pytest.mark.parametrize("share", [0.02, 0.97, 1.0])
def test_factors_of_drivers_multiply_to_the_observed_impact(share, ended):
    ends = np.arange(1.0, 11)
    work = {"instructions": 1e9 * (1 + ends % 3), "cycles": 2e9 + 1e8 * ends, "task-clock": 990 + ends}
    solo = samples(ends, **work)
    corun = samples(1.2 * ends, **{event: share * counts for event, counts in work.items()})
    found = predict_online(solo, corun, None, None, whole=True if ended else None, ended=ended)
    product = np.prod([1 + driver.contribution for driver in found.attributions])
    assert product == pytest.approx(found.opinions[0].so_far, rel=1e-6)
    assert ended is None or found.impact == pytest.approx(ended / 10)


@pytest.mark.parametrize("corunners", [2, 10, 63])
def test_impacts_of_many_co_runners_are_positive_and_add_slowdowns(corunners):
    impacts = np.random.default_rng(corunners).uniform(0.9, 1.3, (corunners, 5))
    together = add_slowdowns(impacts)
    assert (together >= impacts.max(axis=0) + np.minimum(impacts.min(axis=0) - 1, 0)).all()
    slower = np.maximum(impacts, 1)
    np.testing.assert_array_equal(add_slowdowns(slower), 1 + (slower - 1).sum(axis=0))
    faster = np.minimum(impacts, 0.99)
    np.testing.assert_array_equal(add_slowdowns(faster), faster.min(axis=0))


def held_out(tasks, corunners, errors):
    """Return held-out predictions of measured impacts 1, with relative errors, and one measurement each."""
    rows = pd.DataFrame({"task": tasks, "corunners": corunners, "machine": "m", "measured": 1.0})
    predicted = 1 + np.asarray(errors, float)
    return rows.assign(predicted=predicted, low=0.5, high=2.0), rows.assign(impact=1.0)


def test_the_twenty_largest_errors_come_in_descending_order():
    errors = np.arange(30, 0, -1) / 100 * np.tile([-1, 1], 15)
    names = [f"t{number:02}" for number in range(30)]
    worst = WorstCoruns.from_predictions(*held_out(names[::-1], "x", errors[::-1]))
    assert [case.task for case in worst.cases] == names[:20]
    assert [case.error for case in worst.cases] == pytest.approx(errors[:20])
    told = f"11.0{SPACE}% to 30.0{SPACE}%. The model predicts 10 of these impacts too high"
    assert (told in worst.chart.title, worst.measured_once) == (True, 20)
    assert WorstCoruns.from_predictions(*held_out([], [], [])) is None


@pytest.mark.parametrize(
    ("impacts", "predicted", "undecidable"),
    [
        ((0.9, 1.0, 1.3), 1.25, True),
        ((0.9, 1.0, 1.3), 0.7, True),  # the deviation 1.3 / 0.95 - 1 is larger than the error
        ((0.9, 1.0, 1.3), 0.6, False),
        ((0.99, 1.01), 1.2, False),
        ((1.0,), 1.0, False),  # one measurement shows no variation
    ],
)
def test_errors_within_the_variation_of_measurements_are_undecidable(impacts, predicted, undecidable):
    predictions, runs = held_out(["a"], ["b"], [predicted - 1])
    runs = pd.concat([runs.assign(impact=impact) for impact in impacts])
    worst = WorstCoruns.from_predictions(predictions, runs)
    assert [case.undecidable for case in worst.cases] == [undecidable]
    assert worst.measured_once == (len(impacts) == 1)
    assert ("a with b (not decidable)" in worst.chart.svg) == undecidable


def test_causes_of_large_errors_need_a_significant_excess():
    tasks, others = np.repeat([*"abcdefghij"], 20), np.tile([f"{name}+z" for name in "uvwxy"], 40)
    for errors, told in (
        (tasks == "c", f': task "c" (20 of 20; 10.0{SPACE}% of all).'),
        (np.char.startswith(others, "w"), f': co-runner "w" (20 of 20; 20.0{SPACE}% of all).'),
        (np.arange(200) % 9 == 0, "No task and no co-runner is significantly more frequent"),
    ):
        assert told in WorstCoruns.from_predictions(*held_out(tasks, others, 0.5 * errors)).causes
