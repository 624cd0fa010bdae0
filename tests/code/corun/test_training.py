"""Divisions of co-runs, scores of predictions, the online model and what is written."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.parallel import Compute
from training.corun.estimators.arrays import CorunContrast, QuickContention, split_log_impacts
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.fitting import (
    FittedImpact,
    ImpactRecipe,
    Ranges,
    log_width,
    repeatability_scores,
    with_intervals,
)
from training.corun.estimators.models import CATALOGUE
from training.corun.estimators.pressure import PAIR_SEPARATOR, Named, PressureRegressor
from training.corun.estimators.smooth import sides_of
from training.corun.online import SampledRuns, fit_online_models
from training.corun.splits import DESIGNS, possible_splits
from training.corun.stages import ExplainedFold, accuracy_without_events
from training.corun.stored import ImpactCard, TrainedImpact

TASKS = [f"t{n:02d}" for n in range(12)]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Return all pairs of twelve tasks on two machines, slowed by what the co-runner presses."""
    pressure = dict(zip(TASKS, np.linspace(0, 1, len(TASKS)), strict=True))
    rows = [
        {
            "task": task,
            "corunners": other,
            "machine": machine,
            "device": machine,
            "families": "+".join(sorted((task, other))),
            "own_rate": pressure[task],
            "others_rate": pressure[other],
            "impact": 1 + 0.5 * pressure[task] * pressure[other] + 0.1 * (machine == "m2"),
        }
        for task, other, machine in product(TASKS, TASKS, ("m1", "m2"))
    ]
    return pd.DataFrame(rows)


def members(table: pd.DataFrame, rows: np.ndarray) -> set[str]:
    """Return the families of all tasks in these rows."""
    return {name for names in table["families"].iloc[rows] for name in names.split("+")}


@pytest.mark.parametrize(("design", "column"), [("pairs", "families"), ("machines", "device")])
def test_held_out_groups_are_on_one_side_only(table: pd.DataFrame, design: str, column: str) -> None:
    for train, test in DESIGNS[design].divide(table, 3, 7):
        assert not set(table[column].iloc[train]) & set(table[column].iloc[test])


def test_held_out_tasks_occur_in_no_training_row(table: pd.DataFrame) -> None:
    divided = DESIGNS["tasks"].divide(table, 3, 7)
    assert all(not members(table, train) & members(table, test) for train, test in divided)
    assert set().union(*(members(table, test) for _, test in divided)) == set(TASKS)


def test_designs_that_need_several_machines_are_left_out(table: pd.DataFrame) -> None:
    one = table[table["machine"] == "m1"].reset_index(drop=True)
    assert set(possible_splits(one, tuple(DESIGNS), 3, 7)) == {"random", "pairs", "tasks"}


@pytest.mark.parametrize("rows", [0, 2, 3])
def test_too_few_coruns_for_random_folds_are_an_error(table: pd.DataFrame, rows: int) -> None:
    with pytest.raises(InputError, match=f"^{rows} co-runs are too few; 4 random folds need at least 4$"):
        possible_splits(table[:rows], ("pairs", "random"), 4, 7)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_does_better_than_a_constant(table: pd.DataFrame, name: str) -> None:
    one = table[table["machine"] == "m1"].reset_index(drop=True)
    train, test = DESIGNS["random"].divide(one, 4, 3)[0]
    params = {**CATALOGUE[name].start, **CATALOGUE[name].in_search}
    model = ImpactRecipe(name, params, ("own_rate", "others_rate"), 0.03, 1).fit(one.iloc[train])
    measured = one["impact"].to_numpy()[test]
    error = np.abs(model.predict(one.iloc[test]) / measured - 1).mean()
    assert error < 0.8 * np.abs(one["impact"].iloc[train].median() / measured - 1).mean()


def test_measurements_of_a_pair_on_other_machines_are_used() -> None:
    generator = np.random.default_rng(0)
    pairs = np.array([f"p{n:03d}" for n in range(150)] * 2)
    impact = np.tile(1 + generator.random(150), 2)
    model = ContentionRegressor(trees=20, forest=10).fit(generator.random((300, 3)), impact, on("m", pairs))
    unseen = generator.random((150, 3))
    known = np.abs(model.predict(unseen, on("m", pairs[:150])) - impact[:150]).mean()
    assert known < 0.5 * np.abs(model.predict(unseen) - impact[:150]).mean()


SENSITIVITY = dict(zip(TASKS, np.linspace(0.5, 1.5, len(TASKS)), strict=True))
PRESSURE = dict(zip(TASKS, np.linspace(0.3, 0.0, len(TASKS)), strict=True))


def on(machine: str, pairs: np.ndarray) -> Named:
    """Return pairs on one machine."""
    return Named(pairs, np.full(len(pairs), machine))


def pressed(pair: str) -> float:
    """Return the log impact of a pair by the sensitivities and pressures above."""
    task, beside = pair.split("\n")
    return SENSITIVITY[task] * sum(PRESSURE[name] for name in beside.split("+"))


def test_sensitivities_and_pressures_are_robust_to_exceptional_pairs() -> None:
    pairs = np.array(["\n".join(pair) for pair in product(TASKS, TASKS)])
    logs = np.array([pressed(pair) for pair in pairs])
    odd = np.random.default_rng(0).random(len(pairs)) < 0.1
    model = PressureRegressor().fit(on("m", pairs), np.where(odd, logs + 0.5, logs))
    np.testing.assert_allclose(model.predict(on("m", pairs)), logs, atol=0.01)


def test_pressures_of_several_corunners_add_up() -> None:
    pairs = np.array(["\n".join(pair) for pair in product(TASKS, (*TASKS, "t00+t01", "t05+t05+t02"))])
    model = PressureRegressor().fit(on("m", pairs), np.array([pressed(pair) for pair in pairs]))
    unseen = np.array(["t03\nt04+t01", "t09\nt01+t04", "t02\nt00+t00+t00"])
    np.testing.assert_allclose(model.predict(on("m", unseen)), [pressed(pair) for pair in unseen], atol=0.01)


def test_machine_specific_sensitivity_affects_only_that_machine() -> None:
    pairs = np.array(["\n".join(pair) for pair in product(TASKS, TASKS)])
    logs = np.array([pressed(pair) for pair in pairs])
    hurt = np.char.startswith(pairs, "t03")
    both = Named(np.tile(pairs, 3), np.repeat(["m1", "m2", "m3"], len(pairs)))
    model = PressureRegressor().fit(both, np.concatenate([logs, logs, logs + 0.3 * hurt]))
    np.testing.assert_allclose(model.predict(on("m1", pairs)), logs, atol=0.02)
    np.testing.assert_allclose(model.predict(on("m9", pairs)), logs, atol=0.02)
    more = model.predict(on("m3", pairs)) - logs
    assert more[hurt].min() > 0.15
    assert np.abs(more[~hurt]).max() < 0.02


def test_trees_predict_alone_for_tasks_without_pressure() -> None:
    pairs = np.array(["\n".join(pair) for pair in product(TASKS, TASKS)])
    impact = np.exp([pressed(pair) for pair in pairs])
    x = np.random.default_rng(0).random((len(pairs), 2))
    model = ContentionRegressor(trees=5, forest=3).fit(x, impact, on("m", pairs))
    asked = on("m", np.array(["new\nt01", "t01\nnew", "t01\nt02+new", "t01\nt02+t03"]))
    assert np.isnan(model.pressures_.predict(asked)).tolist() == [True, True, True, False]
    same = model.predict(x[:4], asked) == model.predict(x[:4])
    assert same.tolist() == [True, True, True, False]


@pytest.mark.parametrize("product_of_both", [True, False])
def test_pressures_get_weight_only_for_multiplicative_impact(product_of_both: bool) -> None:
    generator = np.random.default_rng(0)
    pairs = np.array(["\n".join(pair) for pair in product(TASKS, TASKS)])
    x = generator.choice([0.1, 0.4], (len(pairs), 2))
    logs = np.array([pressed(pair) for pair in pairs]) if product_of_both else x[:, 0]
    model = ContentionRegressor(trees=60, forest=10).fit(x, np.exp(logs), on("m", pairs))
    assert model.shares_new_.tolist() == ([0, 1, 0, 0] if product_of_both else [1, 0, 0, 0])


def test_width_of_ranges_is_relative_to_mean_impact() -> None:
    tasks = np.array(["a", "a", "b"])
    ranges = Ranges.from_impacts(tasks, np.array([1.0, 3.0, 4.0]), 0.1)
    np.testing.assert_allclose(ranges.range_widths(np.array(["a", "b", "new"])), [0.2, 0.4, 0.8 / 3])
    assert ranges.range_numbers(tasks, np.array([1.05, 1.25, 4.1])).tolist() == [5, 6, 10]


def test_intervals_of_a_fold_exclude_its_own_residuals() -> None:
    rows = pd.DataFrame({"fold": [0] * 9 + [1], "measured": [1.1] * 9 + [9.0], "predicted": 1.0})
    assert log_width(rows[rows["fold"] == 0], 0.9) == pytest.approx(np.log(1.1))
    found = with_intervals(rows, 0.9)
    assert found.loc[found["fold"] == 1, "high"].tolist() == pytest.approx([1.1])


def test_a_repetition_is_predicted_by_the_other_repetitions() -> None:
    pairs = pd.DataFrame(
        {"task": "a", "corunner_1": ["b", "b", "c"], "machine": "m", "corun_seconds": [1.0, 1.25, 9.0]}
    )
    alone = pd.Series([1.0, 1.0], pd.MultiIndex.from_tuples([("m", "a"), ("m", "a")]))
    found = repeatability_scores(pairs, alone, 0.21)
    assert found["repeated"] == 1
    assert found["mape"] == pytest.approx((0.2 + 0.25) / 2)
    assert found["within_tolerance"] == 0.5
    # ranges are 0.21 x the mean impact, 3.75, wide, then 0.1 x
    assert (found["same_range"], repeatability_scores(pairs, alone, 0.1)["same_range"]) == (1.0, 0.0)


def test_stored_model_widens_intervals_for_an_unknown_machine(table: pd.DataFrame, tmp_path: Path) -> None:
    columns = ("own_rate", "others_rate")
    params = {**CATALOGUE["contention"].start, "trees": 5, "forest": 3}
    model = ImpactRecipe("contention", params, columns, 0.03, 1).fit(table).model
    model.shares_known_ = np.array([0.2, 0.4, 0.3, 0.1])
    widths = {"pairs": 0.02, "tasks": 0.05, "machines": 0.2}
    card = ImpactCard("contention", columns, params, widths, ("m1", "m2"), tuple(TASKS), "", 1, 0.9)
    TrainedImpact(model, card).write(tmp_path)
    asked = table.iloc[[5, 5, 5]].assign(machine=["m1", "m1", "m9"], task=["t00", "new", "t00"])
    found = TrainedImpact.read(tmp_path).predict(asked)
    pd.testing.assert_frame_equal(found, TrainedImpact(model, card).predict(asked))
    np.testing.assert_allclose(np.log(found["high"] / found["impact"]), [0.02, 0.05, 0.2])


def test_the_online_model_infers_impact_from_lower_rates() -> None:
    impacts = np.repeat(np.linspace(1, 2, 21), 2)
    runs, samples = [], []
    for number, impact in enumerate(impacts):
        for phase, slow in (("solo", 1.0), ("corun", impact)):
            run = {"machine": "m", "task": f"t{number:02d}", "corunners": "", "phase": phase, "repetition": 1}
            runs.append(run)
            samples += [{**run, "t_seconds": t, "instructions": 1e9 / slow} for t in (1.0, 2.0, 3.0)]
    sampled = SampledRuns.from_samples(pd.DataFrame(samples), 2.0)
    place = {key: n for n, key in enumerate(zip(sampled.runs["task"], sampled.runs["phase"], strict=True))}
    sides = {phase: [place[f"t{n:02d}", phase] for n in range(len(impacts))] for phase in ("solo", "corun")}
    pairs = pd.DataFrame({**sides, "impact": impacts, "families": "f"})
    known, unseen = pairs[::2], pairs[1::2]
    linear = CATALOGUE["linear"].build({"alpha": 1e-6}, 0, None)
    (model,) = fit_online_models(sampled, known, [linear])
    predicted = model.predict(sampled.start[unseen["solo"]], sampled.start[unseen["corun"]])
    np.testing.assert_allclose(predicted, unseen["impact"], rtol=1e-3)


def test_a_stored_model_and_its_arrays_answer_alike(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    names = [f"t{n}" for n in range(12)]
    pairs = np.array([f"{one}{PAIR_SEPARATOR}{other}" for one in names for other in names])
    x = generator.normal(size=(len(pairs), 4))
    pressed = np.outer(generator.random(12), generator.random(12)).ravel()
    impact = 1 + pressed + 0.3 * np.tanh(x[:, 1])
    x[generator.random(x.shape) < 0.1] = np.nan
    known = on("m", pairs)[np.arange(0, 120)]
    sides = sides_of(["own_a", "own_b", "others_a", "longer"])
    model = ContentionRegressor(trees=30, forest=10).fit(x[:120], impact[:120], known, sides)
    assert min(model.shares_new_[1], model.shares_new_[3]) > 0  # pressures and the smooth one are stored too
    card = ImpactCard("contention", tuple("abcd"), {}, {"pairs": 0.1}, ("m",), (), "", 1, 0.9)
    TrainedImpact(model, card).write(tmp_path)
    quick = TrainedImpact.read_quick(tmp_path).model
    assert isinstance(quick, QuickContention)
    asked = on("m", pairs)
    np.testing.assert_allclose(quick.predict(x, asked), model.predict(x, asked), rtol=1e-5)
    usual, owners = np.nanmedian(x, axis=0), np.arange(4)
    ways = [CorunContrast(x[row], usual, owners, 4, asked[np.array([row])]) for row in (3, 130)]
    by_model, by_arrays = (
        split_log_impacts(FittedImpact(fitted, tuple("abcd")), ways) for fitted in (model, quick)
    )
    for one, other in zip(by_model, by_arrays, strict=True):
        np.testing.assert_allclose(other.shares, one.shares, rtol=1e-9, atol=1e-12)
        assert other.impact == pytest.approx(one.impact, rel=1e-9)


def test_compiled_arrays_of_another_model_are_not_read(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(60, 2))
    pairs = on("m", np.array([f"p{n}" for n in range(60)]))
    card = ImpactCard("contention", ("a", "b"), {}, {"pairs": 0.1}, ("m",), (), "", 1, 0.9)
    small = ContentionRegressor(trees=5, forest=5, mixed=False)
    TrainedImpact(small.fit(x, np.exp(x[:, 0]), pairs), card).write(tmp_path)
    arrays = (tmp_path / "model.npz").read_bytes()
    TrainedImpact(small.fit(x, np.exp(x[:, 1]), pairs), card).write(tmp_path)
    (tmp_path / "model.npz").write_bytes(arrays)
    assert not isinstance(TrainedImpact.read_quick(tmp_path).model, QuickContention)


def test_removed_events_are_dropped_on_both_sides(table: pd.DataFrame) -> None:
    sides = {"own_rate": "own_context-switches", "others_rate": "others_context-switches"}
    rows = table.rename(columns=sides).assign(own_seconds=np.arange(len(table)) % 7.0)
    columns = (*sides.values(), "own_seconds")
    recipe = ImpactRecipe("linear", {"alpha": 1e-6, "preparation": "n-d"}, columns, 0.03, 1)
    train, test = np.arange(0, len(rows), 2), np.arange(1, len(rows), 2)
    said = recipe.fit(rows.iloc[train]).predict(rows.iloc[test])
    unseen = pd.DataFrame({"measured": rows["impact"].iloc[test], "predicted": said})
    found = accuracy_without_events(
        [ExplainedFold(recipe, rows.iloc[train], rows.iloc[test])], unseen, Compute()
    ).set_index("without")
    assert found.loc["", "mape"] == pytest.approx(np.abs(said / rows["impact"].iloc[test] - 1).mean())
    assert found.loc["context-switches", "mape"] > found.loc["", "mape"]
    assert found.index[found["measured"]].tolist() == ["", "context-switches"]


def test_with_hundreds_of_events_the_search_starts_without_rates() -> None:
    ours = CATALOGUE["contention"]
    assert [ours.first_params(rates)["rates"] for rates in (200, 201)] == [True, False]
    assert CATALOGUE["linear"].first_params(500) == CATALOGUE["linear"].start
