"""Impacts that are split: shares add up, and are those of Shapley by hand."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from training.corun.estimators.arrays import CorunContrast, ImpactArrays, split_by_trees, split_log_impacts
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.fitting import FittedImpact
from training.corun.estimators.pressure import PAIR_SEPARATOR, Named
from training.corun.estimators.smooth import SmoothRegressor, sides_of

TASKS = [f"t{n}" for n in range(10)]
COLUMNS = ("own_a", "own_b", "others_a", "others_b", "longer")
#: The things that the columns belong to.
OWNERS = np.array([0, 1, 2, 2, 3])


class Made:
    """Co-runs of tasks with two properties each, and a gap here and there."""

    def __init__(self) -> None:
        generator = np.random.default_rng(3)
        traits = generator.normal(size=(len(TASKS), 2))
        both = list(product(range(len(TASKS)), repeat=2))
        self.named = Named(
            np.array([f"{TASKS[one]}{PAIR_SEPARATOR}{TASKS[other]}" for one, other in both]),
            np.full(len(both), "m"),
        )
        own, others = (traits[[pair[side] for pair in both]] for side in (0, 1))
        self.x = np.column_stack([own, others, own[:, 0] - others[:, 0]])
        logs = 0.1 * np.exp(own[:, 0] / 2) * np.exp(others[:, 0]) + 0.02 * own[:, 1]
        self.impact = np.exp(logs + 0.01 * generator.normal(size=len(both)))
        self.x[generator.random(self.x.shape) < 0.05] = np.nan

    def way(self, row: int, named: Named | None = None) -> CorunContrast:
        """Return the way from the medians to a row."""
        usual = np.nanmedian(self.x, axis=0)
        return CorunContrast(self.x[row], usual, OWNERS, 4, named or self.named[np.array([row])])


@pytest.fixture(scope="module")
def made() -> Made:
    return Made()


@pytest.fixture(scope="module")
def model(made: Made) -> ContentionRegressor:
    small = ContentionRegressor(trees=30, forest=10)
    return small.fit(made.x, made.impact, made.named, sides_of(COLUMNS))


def by_hand(trees: ImpactArrays, way: CorunContrast) -> NDArray[np.float64]:
    """Go through all orders of the four things."""
    shares = np.zeros(4)
    orders = list(permutations(range(4)))
    for order in orders:
        row = way.usual.copy()
        for thing in order:
            before = trees.tree_log_impacts(row[None])[0]
            row = np.where(way.owners == thing, way.row, row)
            shares[thing] += (trees.tree_log_impacts(row[None])[0] - before) / len(orders)
    return shares


@pytest.mark.parametrize("row", [7, 42, 95])
def test_tree_attributions_are_means_over_all_orders(
    made: Made, model: ContentionRegressor, row: int
) -> None:
    trees, way = ImpactArrays.from_model(model), made.way(row)
    np.testing.assert_allclose(split_by_trees(trees, [way])[0].shares, by_hand(trees, way), atol=1e-12)


@pytest.mark.parametrize("pair", ["t1\nt2", "new\nt2", "t1\nnew", "t1\nt2+t3"])
@pytest.mark.parametrize("row", [7, 42])
def test_attributions_add_up_to_the_models_prediction(
    made: Made, model: ContentionRegressor, row: int, pair: str
) -> None:
    way = made.way(row, Named(np.array([pair]), np.array(["m"])))
    found = split_log_impacts(FittedImpact(model, COLUMNS), [way])[0]
    said = float(model.predict(made.x[row][None], way.named)[0])
    assert np.exp(found.impact) == pytest.approx(said, rel=1e-5)
    points = (
        found.shares.sum() + found.of_task.share + found.of_corunners.share
    ) * found.points_per_log_share
    assert np.exp(found.usual) + points == pytest.approx(np.exp(found.impact), rel=1e-9)


def test_attributions_do_not_depend_on_other_co_runs(made: Made, model: ContentionRegressor) -> None:
    ways, fitted = [made.way(row) for row in range(0, 100, 5)], FittedImpact(model, COLUMNS)
    for way, found in zip(ways, split_log_impacts(fitted, ways), strict=True):
        (alone,) = split_log_impacts(fitted, [way])
        np.testing.assert_array_equal(found.shares, alone.shares)
        assert (found.usual, found.impact) == (alone.usual, alone.impact)
        assert (found.of_task, found.of_corunners) == (alone.of_task, alone.of_corunners)


def test_smooth_attributions_are_integrals_of_the_slope(made: Made, model: ContentionRegressor) -> None:
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


def test_features_that_do_not_differ_have_no_attribution(made: Made, model: ContentionRegressor) -> None:
    way = made.way(7)
    same = CorunContrast(np.where(OWNERS == 2, way.usual, way.row), way.usual, OWNERS, 4, way.named)
    assert split_log_impacts(FittedImpact(model, COLUMNS), [same])[0].shares[2] == 0


def test_attributions_of_a_foreign_model_add_up(made: Made) -> None:
    class Plain:
        """Log impact with an interaction."""

        def predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.tanh(x[:, 0]) * x[:, 2] + 0.1 * x[:, 1])

    way = made.way(3)
    found = split_log_impacts(FittedImpact(Plain(), COLUMNS), [way])[0]
    assert found.usual + found.shares.sum() == pytest.approx(found.impact, abs=1e-12)
    # nothing goes together with it, so that the order does not matter
    assert found.shares[1] == pytest.approx(0.1 * (way.row[1] - way.usual[1]))


def test_a_smooth_function_interpolates_between_training_tasks(made: Made) -> None:
    last = np.char.endswith(made.named.pairs, "t9") | np.char.startswith(made.named.pairs, "t9")
    train, test = np.flatnonzero(~last), np.flatnonzero(last)
    logs = np.log(made.impact)
    smooth = SmoothRegressor().fit(made.x[train], logs[train], made.named[train], sides_of(COLUMNS))
    error = np.abs(smooth.predict(made.x[test], made.named[test]) - logs[test]).mean()
    assert error < 0.5 * np.abs(logs[test] - np.median(logs[train])).mean()
