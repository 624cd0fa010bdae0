"""Divisions of co-runs, scores of predictions, the online model and what is written."""

from copy import deepcopy
from itertools import permutations, product
from types import SimpleNamespace
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from data.corun.tables import CorunTables
from data.errors import InputError
from data.parallel import Compute
from features.corun.featurize import training_instances
from features.corun.rates import Placed, Solo, corun_matrix, corun_vectors
from serving.corun.model import Static
from tests.data.corun import rows
from training.corun.estimators import arrays, fitting
from training.corun.estimators.arrays import CorunContrast, QuickContention, split_log_impacts
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.fitting import FittedImpact, ImpactRecipe
from training.corun.estimators.models import CATALOGUE
from training.corun.estimators.pressure import PAIR_SEPARATOR, Named, PressureRegressor
from training.corun.estimators.smooth import sides_of
from training.corun.online import SampledRuns, accuracy_by_seconds, fit_online_models
from training.corun.splits import DESIGNS, DesignPart, possible_splits
from training.corun.stages import ModelOfPart, explain_champion
from training.corun.stored import ImpactCard, TrainedImpact

TASKS = [f"t{n:02d}" for n in range(12)]
SENSITIVITY = dict(zip(TASKS, np.linspace(0.5, 1.5, len(TASKS)), strict=True))
PRESSURE = dict(zip(TASKS, np.linspace(0.3, 0.0, len(TASKS)), strict=True))


def on(machine, pairs):
    """Return pairs on one machine."""
    return Named(pairs, np.full(len(pairs), machine))


def pressed(pairs):
    """Return the log impacts of pairs by the sensitivities and pressures above."""
    split = (pair.split(PAIR_SEPARATOR) for pair in pairs)
    return np.array([SENSITIVITY[one] * sum(map(PRESSURE.get, others.split("+"))) for one, others in split])


PAIRS = np.array([PAIR_SEPARATOR.join(pair) for pair in product(TASKS, TASKS)])
LOGS = pressed(PAIRS)
#: Columns that describe neither tasks nor machines.
NO_SIDES = sides_of(["a", "b"])
RATES = ("own_rate", "others_rate")


@pytest.fixture(scope="module")
def table():
    """Return all pairs of twelve tasks on two machines, slowed by what the co-runner presses."""
    pressure = dict(zip(TASKS, np.linspace(0, 1, len(TASKS)), strict=True))
    return pd.DataFrame(
        {
            "task": task, "corunners": other, "machine": machine, "device": machine,
            "families": "+".join(sorted((task, other))), "own_rate": pressure[task],
            "others_rate": pressure[other],
            "impact": 1 + 0.5 * pressure[task] * pressure[other] + 0.1 * (machine == "m2"),
        }
        for task, other, machine in product(TASKS, TASKS, ("m1", "m2"))
    )  # fmt: skip


@pytest.mark.parametrize(
    ("design", "members"),
    [
        ("pairs", lambda row: {row.families}),
        ("machines", lambda row: {row.device}),
        ("tasks", lambda row: {row.task, row.corunners}),
    ],
)
def test_held_out_groups_are_on_one_side_only(table, design, members):
    groups, held_out = [members(row) for row in table.itertuples()], set()
    for sides in DESIGNS[design].divide(table, 3, 7):
        train, test = (set().union(*(groups[row] for row in rows)) for rows in sides)
        assert not train & test
        held_out |= test
    assert held_out == set().union(*groups)


def test_only_possible_designs_are_used(table):
    one = table[table["machine"] == "m1"].reset_index(drop=True)
    assert set(possible_splits(one, tuple(DESIGNS), 3, 7)) == {"random", "pairs", "tasks"}
    for few in (0, 3):
        with pytest.raises(InputError, match=f"^{few} co-runs are too few; 4 random folds need at least 4$"):
            possible_splits(table[:few], ("pairs", "random"), 4, 7)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_does_better_than_a_constant(table, name):
    one = table[table["machine"] == "m1"].reset_index(drop=True)
    train, test = (one.iloc[rows] for rows in DESIGNS["random"].divide(one, 4, 3)[0])
    params = {**CATALOGUE[name].start, **CATALOGUE[name].in_search}
    model = ImpactRecipe(name, params, RATES, 0.03, 1).fit(train)
    measured = test["impact"].to_numpy()
    error = np.abs(model.predict(test) / measured - 1).mean()
    assert error < 0.8 * np.abs(train["impact"].median() / measured - 1).mean()


def test_measurements_of_a_pair_on_other_machines_are_used():
    generator = np.random.default_rng(0)
    pairs = np.array([f"p{n:03d}" for n in range(150)] * 2)
    impact = np.tile(1 + generator.random(150), 2)
    small = ContentionRegressor(trees=20, forest=10)
    model = small.fit(generator.random((300, 3)), impact, on("m", pairs), sides_of(["a", "b", "c"]))
    unseen = generator.random((150, 3))
    known = np.abs(model.predict(unseen, on("m", pairs[:150])) - impact[:150]).mean()
    assert known < 0.5 * np.abs(np.exp(model.tree_log_impacts(unseen)) - impact[:150]).mean()


def test_pressures_add_up_and_are_robust_to_exceptional_pairs():
    several = [PAIR_SEPARATOR.join(pair) for pair in product(TASKS, ("t00+t01", "t05+t05+t02"))]
    pairs = np.array([*PAIRS, *several])
    odd = np.random.default_rng(0).random(len(pairs)) < 0.1
    model = PressureRegressor().fit(on("m", pairs), np.where(odd, pressed(pairs) + 0.5, pressed(pairs)))
    unseen = np.array([*pairs, "t03\nt04+t01", "t09\nt01+t04", "t02\nt00+t00+t00"])
    np.testing.assert_allclose(model.predict(on("m", unseen)), pressed(unseen), atol=0.01)


def test_machine_specific_sensitivity_affects_only_that_machine():
    hurt = np.char.startswith(PAIRS, "t03")
    both = Named(np.tile(PAIRS, 3), np.repeat(["m1", "m2", "m3"], len(PAIRS)))
    model = PressureRegressor().fit(both, np.concatenate([LOGS, LOGS, LOGS + 0.3 * hurt]))
    for machine in ("m1", "m9"):
        np.testing.assert_allclose(model.predict(on(machine, PAIRS)), LOGS, atol=0.02)
    more = model.predict(on("m3", PAIRS)) - LOGS
    assert more[hurt].min() > 0.15
    assert np.abs(more[~hurt]).max() < 0.02


def test_trees_predict_alone_for_tasks_without_pressure():
    x = np.random.default_rng(0).random((len(PAIRS), 2))
    model = ContentionRegressor(trees=5, forest=3).fit(x, np.exp(LOGS), on("m", PAIRS), NO_SIDES)
    asked = on("m", np.array(["new\nt01", "t01\nnew", "t01\nt02+new", "t01\nt02+t03"]))
    model.shares_new_ = model.shares_strange_ = np.array([0.5, 0.5, 0, 0])
    same = np.isclose(model.predict(x[:4], asked), np.exp(model.tree_log_impacts(x[:4])), rtol=1e-12)
    assert same.tolist() == np.isnan(model.pressures_.predict(asked)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("product_of_both", [True, False])
def test_pressures_get_weight_only_for_multiplicative_impact(product_of_both):
    x = np.random.default_rng(0).choice([0.1, 0.4], (len(PAIRS), 2))
    logs = LOGS if product_of_both else x[:, 0]
    model = ContentionRegressor(trees=60, forest=10).fit(x, np.exp(logs), on("m", PAIRS), NO_SIDES)
    assert model.shares_new_.tolist() == ([0, 1, 0, 0] if product_of_both else [1, 0, 0, 0])


def test_width_of_ranges_is_relative_to_mean_impact():
    tasks = np.array(["a", "a", "b"])
    ranges = fitting.Ranges.from_impacts(tasks, np.array([1.0, 3.0, 4.0]), 0.1)
    np.testing.assert_allclose(ranges.range_widths(np.array(["a", "b", "new"])), [0.2, 0.4, 0.8 / 3])
    assert ranges.range_numbers(tasks, np.array([1.05, 1.25, 4.1])).tolist() == [5, 6, 10]


def test_intervals_of_a_fold_exclude_its_own_residuals():
    rows = pd.DataFrame({"fold": [0] * 9 + [1], "measured": [1.1] * 9 + [9.0], "predicted": 1.0})
    assert fitting.log_width(rows[rows["fold"] == 0], 0.9) == pytest.approx(np.log(1.1))
    found = fitting.with_intervals(rows, 0.9)
    assert found.loc[found["fold"] == 1, "high"].tolist() == pytest.approx([1.1])


def test_a_repetition_is_predicted_by_the_other_repetitions():
    pairs = pd.DataFrame(
        {"task": "a", "corunner_1": ["b", "b", "c"], "machine": "m", "corun_seconds": [1.0, 1.25, 9.0]}
    )
    alone = pd.Series([1.0, 1.0], pd.MultiIndex.from_tuples([("m", "a"), ("m", "a")]))
    found = fitting.repeatability_scores(pairs, alone, 0.21)
    assert found["repeated"] == 1
    assert found["mape"] == pytest.approx((0.2 + 0.25) / 2)
    assert found["within_tolerance"] == 0.5
    # ranges are 0.21 x the mean impact, 3.75, wide, then 0.1 x
    assert (found["same_range"], fitting.repeatability_scores(pairs, alone, 0.1)["same_range"]) == (1.0, 0.0)


def card_of(columns, machines=("m",), widths=None):
    given = widths or {"pairs": 0.1}
    return ImpactCard("contention", tuple(columns), {}, given, machines, tuple(TASKS), "", 1, 0.9)


@pytest.fixture(scope="module")
def trained(table):
    params = {**CATALOGUE["contention"].start, "trees": 5, "forest": 3}
    model = ImpactRecipe("contention", params, RATES, 0.03, 1).fit(table).model
    # every part of the model counts
    model.shares_known_ = np.array([0.2, 0.4, 0.3, 0.1])
    widths = {"pairs": 0.02, "tasks": 0.05, "machines": 0.2}
    return TrainedImpact(model, card_of(RATES, ("m1", "m2"), widths))


def test_stored_model_widens_intervals_for_an_unknown_machine(table, trained, tmp_path):
    trained.write(tmp_path)
    asked = table.iloc[[5, 5, 5]].assign(machine=["m1", "m1", "m9"], task=["t00", "new", "t00"])
    x, named = asked[list(RATES)].to_numpy(), fitting.named_of(asked)
    stored = TrainedImpact.read(tmp_path)
    assert (stored.predict_impacts(x, named) == trained.predict_impacts(x, named)).all()
    tasks = zip(asked["machine"], asked["task"], asked["corunners"], strict=True)
    assert [stored.card.half_width(machine, members) for machine, *members in tasks] == [0.02, 0.05, 0.2]


def test_an_impact_does_not_depend_on_the_rows_beside_it(table, trained):
    static = Static(trained.card, None, None, lambda: trained, None)
    x, named = table[list(RATES)].to_numpy(), fitting.named_of(table)
    whole = static.predict_impacts(x, named)
    order = np.random.default_rng(3).permutation(len(x))
    for size, start in product((1, 2, 3, 7), range(0, len(x), 7)):
        rows = order[start : start + size]
        np.testing.assert_array_equal(static.predict_impacts(x[rows], named[rows]), whole[rows])


def test_the_online_model_infers_impact_from_lower_rates():
    impacts = np.repeat(np.linspace(1, 2, 21), 2)
    samples = pd.DataFrame(
        {
            "machine": "m", "task": f"t{number:02d}", "corunners": "", "phase": phase, "repetition": 1,
            "t_seconds": t, "instructions": 1e9 / (impact if phase == "corun" else 1),
        }
        for number, impact in enumerate(impacts)
        for phase in ("solo", "corun")
        for t in (1.0, 2.0, 3.0)
    )  # fmt: skip
    sampled = SampledRuns.from_samples(samples, 2.0)
    place = sampled.runs.reset_index().pivot(index="task", columns="phase", values="index")
    pairs = place.reset_index(drop=True).assign(impact=impacts, families="f")
    known, unseen = pairs[::2], pairs[1::2]
    linear = CATALOGUE["linear"].build({"alpha": 1e-6}, 0, None)
    (model,) = fit_online_models(sampled, known, [linear])
    predicted = model.predict(sampled.start[unseen["solo"]], sampled.start[unseen["corun"]])
    np.testing.assert_allclose(predicted, unseen["impact"], rtol=1e-3)


COLUMNS = ("own_a", "own_b", "others_a", "others_b", "longer")
#: The things that the columns belong to.
OWNERS = np.array([0, 1, 2, 2, 3])


class Made:
    """Co-runs of ten tasks with two properties each, and a gap here and there."""

    def __init__(self):
        generator = np.random.default_rng(3)
        traits = generator.normal(size=(10, 2))
        both = list(product(range(10), repeat=2))
        self.named = on("m", np.array([f"t{one}{PAIR_SEPARATOR}t{other}" for one, other in both]))
        own, others = (traits[list(side)] for side in zip(*both, strict=True))
        self.x = np.column_stack([own, others, own[:, 0] - others[:, 0]])
        logs = 0.1 * np.exp(own[:, 0] / 2) * np.exp(others[:, 0]) + 0.02 * own[:, 1]
        self.impact = np.exp(logs + 0.01 * generator.normal(size=len(both)))
        self.x[generator.random(self.x.shape) < 0.05] = np.nan

    def way(self, row, named=None):
        """Return the way from the medians to a row."""
        usual = np.nanmedian(self.x, axis=0)
        return CorunContrast(self.x[row], usual, OWNERS, 4, named or self.named[np.array([row])])


@pytest.fixture(scope="module")
def made():
    return Made()


@pytest.fixture(scope="module")
def model(made):
    return ContentionRegressor(trees=30, forest=10).fit(made.x, made.impact, made.named, sides_of(COLUMNS))


def test_a_stored_model_and_its_arrays_answer_alike(made, model, tmp_path):
    # every part of the model counts, for pairs that were and were not in the training data
    model, shares = deepcopy(model), np.array([0.2, 0.4, 0.3, 0.1])
    model.shares_known_ = model.shares_new_ = model.shares_strange_ = shares
    TrainedImpact(model, card_of(COLUMNS)).write(tmp_path)
    quick = TrainedImpact.read_quick(tmp_path).model
    assert isinstance(quick, QuickContention)
    unseen = on("m9", np.char.replace(made.named.pairs, "t3", "new"))
    for named in (made.named, unseen):
        np.testing.assert_allclose(quick.predict(made.x, named), model.predict(made.x, named), rtol=1e-5)
    ways = [made.way(3), made.way(42, on("m", np.array(["new\nt2"])))]
    by_model, by_arrays = (split_log_impacts(FittedImpact(one, COLUMNS), ways) for one in (model, quick))
    for one, other in zip(by_model, by_arrays, strict=True):
        np.testing.assert_allclose(other.shares, one.shares, rtol=1e-9, atol=1e-12)
        assert other.impact == pytest.approx(one.impact, rel=1e-9)


def test_compiled_arrays_of_another_model_are_not_read(made, tmp_path):
    # only the trees are fitted and stored
    small = ContentionRegressor(trees=5, forest=5, mixed=False)
    model = small.fit(made.x, made.impact, made.named, sides_of(COLUMNS))
    TrainedImpact(model, card_of(COLUMNS)).write(tmp_path)
    assert isinstance(TrainedImpact.read_quick(tmp_path).model, QuickContention)
    # other bytes: a comment at the end of the archive
    with ZipFile(tmp_path / "model.skops", "a") as archive:
        archive.comment = b"trained again"
    assert not isinstance(TrainedImpact.read_quick(tmp_path).model, QuickContention)


def test_removed_events_are_dropped_on_both_sides(table):
    sides = {"own_rate": "own_context-switches", "others_rate": "others_context-switches"}
    changed = table.rename(columns=sides).assign(own_seconds=np.arange(len(table)) % 7.0)
    columns = (*sides.values(), "own_seconds")
    recipe = ImpactRecipe("linear", {"alpha": 1e-6, "preparation": "n-d"}, columns, 0.03, 1)
    places = np.arange(0, len(table), 2), np.arange(1, len(table), 2)
    train, test = (changed.iloc[side] for side in places)
    said = recipe.fit(train).predict(test)
    unseen = pd.DataFrame({"measured": test["impact"], "predicted": said})
    fold = ModelOfPart(recipe, train, test, DesignPart("random", 0, *places))
    _, removed = explain_champion([fold], unseen, 1, Compute())
    found = removed.set_index("without")
    assert found.loc["", "mape"] == pytest.approx(np.abs(said / test["impact"] - 1).mean())
    assert found.loc["context-switches", "mape"] > found.loc["", "mape"]
    assert found.index[found["measured"]].tolist() == ["", "context-switches"]


@pytest.mark.parametrize("row", [7, 42])
def test_tree_attributions_are_means_over_all_orders(made, model, row):
    trees, way, shares = arrays.ImpactArrays.from_model(model), made.way(row), np.zeros(4)
    for order in permutations(range(4)):
        row = way.usual.copy()
        for thing in order:
            before = trees.tree_log_impacts(row[None])[0]
            row = np.where(way.owners == thing, way.row, row)
            shares[thing] += (trees.tree_log_impacts(row[None])[0] - before) / 24
    np.testing.assert_allclose(arrays.split_by_trees(trees, [way])[0].shares, shares, atol=1e-12)


@pytest.mark.parametrize(("pair", "row"), [("t1\nt2", 7), ("new\nt2", 42), ("t1\nnew", 7), ("t1\nt2+t3", 42)])
def test_attributions_add_up_to_the_models_prediction(made, model, row, pair):
    way = made.way(row, on("m", np.array([pair])))
    found = split_log_impacts(FittedImpact(model, COLUMNS), [way])[0]
    said = float(model.predict(made.x[row][None], way.named)[0])
    assert np.exp(found.impact) == pytest.approx(said, rel=1e-5)
    shares = found.shares.sum() + found.of_task.share + found.of_corunners.share
    points = shares * found.points_per_log_share
    assert np.exp(found.usual) + points == pytest.approx(np.exp(found.impact), rel=1e-9)


def test_attributions_do_not_depend_on_other_co_runs(made, model):
    ways, fitted = [made.way(row) for row in range(0, 100, 5)], FittedImpact(model, COLUMNS)
    for way, found in zip(ways, split_log_impacts(fitted, ways), strict=True):
        (alone,) = split_log_impacts(fitted, [way])
        np.testing.assert_array_equal(found.shares, alone.shares)
        assert (found.usual, found.impact) == (alone.usual, alone.impact)
        assert (found.of_task, found.of_corunners) == (alone.of_task, alone.of_corunners)


def test_smooth_attributions_are_integrals_of_the_slope(made, model):
    way, smooth, steps = made.way(7, Named(np.array(["new\nnewer"]), np.array(["m"]))), model.smooth_, 400
    base, shares, of_names = smooth.split_log_impact(way.row, way.usual, way.named)
    apiece = (way.row - way.usual) / steps
    points = way.usual + (np.arange(steps)[:, None] + 0.5) * apiece
    for column, share in enumerate(shares):
        ends = [points + sign * apiece / 2 * (np.arange(len(apiece)) == column) for sign in (1, -1)]
        before, after = (smooth.predict(end, way.named[np.zeros(steps, np.intp)]) for end in ends[::-1])
        assert share == pytest.approx((after - before).sum(), abs=1e-5)
    assert of_names.tolist() == pytest.approx([0, 0], abs=1e-9)
    assert base + shares.sum() == pytest.approx(smooth.predict(way.row[None], way.named)[0], abs=1e-9)


def test_attributions_of_a_foreign_model_add_up(made):
    foreign = SimpleNamespace(predict=lambda x: np.asarray(np.tanh(x[:, 0]) * x[:, 2] + 0.1 * x[:, 1]))
    way = made.way(3)
    found = split_log_impacts(FittedImpact(foreign, COLUMNS), [way])[0]
    assert found.usual + found.shares.sum() == pytest.approx(found.impact, abs=1e-12)
    # nothing goes together with it, so that the order does not matter
    assert found.shares[1] == pytest.approx(0.1 * (way.row[1] - way.usual[1]))


def test_equal_impacts_have_a_finite_share_of_explained_variance():
    rows = {"measured": 1.5, "predicted": [1.4, 1.6], "fold": [0, 1], "seconds": 2.0, "design": "tasks"}
    (scores,) = accuracy_by_seconds(pd.DataFrame(rows).assign(model="svm"), 0.1).to_dict("records")
    assert (scores["r2"], scores["mape"]) == (0.0, pytest.approx(0.1 / 1.5))


#: Seconds and instructions of tasks alone.
ALONE = {"a": (2.0, 10.0), "b": (4.0, 8.0), "c": (1.0, 3.0)}
#: A task, its co-runner, and its seconds beside that.
BESIDE = [("a", "b", 3.0), ("a", "b", 2.4), ("a", "b", 2.6), ("b", "a", 4.4)]


@pytest.fixture
def measured():
    alone = [rows.solo(task, time, instructions=n) | {"family": task} for task, (time, n) in ALONE.items()]
    return CorunTables.from_rows(
        alone, [rows.beside(*pair, repetition=n) for n, pair in enumerate(BESIDE, 1)]
    )


@pytest.fixture
def solo(measured):
    """Return what is known of the tasks alone."""
    return Solo.from_tables(measured)


def test_rates_of_several_corunners_add_up_in_any_order(solo):
    corunners = [("b",), (), ("b", "c"), ("c", "b")]
    found = corun_vectors(solo, Placed(["new", "a", "b", "b"], corunners, ["m"] * 4))
    # counts over solo seconds; a task without solo run has no rates
    np.testing.assert_array_equal(found["own_instructions"], [np.nan, 5.0, 2.0, 2.0])
    assert found["others_instructions"].tolist() == [2.0, 0.0, 5.0, 5.0]
    assert found["most_instructions"].tolist()[2] == 3.0
    np.testing.assert_allclose(found.iloc[2].to_numpy(), found.iloc[3].to_numpy(), equal_nan=True)


def test_repetitions_become_one_row_with_the_median_impact(measured, solo):
    found = training_instances(measured, solo)
    assert found[["task", "repetitions", "impact"]].to_numpy().tolist() == [["a", 3, 1.3], ["b", 1, 1.1]]
    assert found["families"].tolist() == ["a+b", "a+b"]


def test_features_of_several_rows_equal_those_of_each_alone(solo):
    asked = [("a", ("b",), "m"), ("c", ("c",), "m"), ("new", ("a",), "m"), ("b", ("a",), "elsewhere")]
    together = corun_matrix(solo, Placed(*map(list, zip(*asked, strict=True))))
    for row, (task, corunners, machine) in zip(together, asked, strict=True):
        alone = corun_matrix(solo, Placed([task], [corunners], [machine]))[0]
        np.testing.assert_array_equal(row, alone)
