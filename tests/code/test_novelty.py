"""Rows unlike those that a model was trained on."""

import numpy as np
import pytest

from training.estimators.out_of_distribution import TrainingDistribution, score_held_out_rows

GROUPS = np.array([f"g{row % 20}" for row in range(1000)])


def draws(rows=1000, seed=0):
    """Two features that rise together, one with a long tail, one that never varies, one that nobody knows."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=rows)
    second = first + 0.1 * rng.normal(size=rows)
    return np.column_stack(
        (first, second, np.exp(2 * rng.normal(size=rows)), np.full(rows, 5.0), np.full(rows, np.nan))
    )


@pytest.fixture(scope="module")
def familiar():
    return TrainingDistribution.from_rows(draws(), GROUPS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_rows_like_those_in_training_at_most_about_the_stated_share_is_strange(familiar, seed):
    assert familiar.is_out_of_distribution(draws(20_000, seed)).mean() < 0.015


def test_the_share_that_the_card_tells_is_of_groups_that_were_held_out():
    found = score_held_out_rows(draws(), GROUPS)
    assert (found.level, found.held_out < 0.02) == (0.01, True)


@pytest.mark.parametrize(
    ("row", "feature"),
    [
        ([9.0, 9.0, 1.0, 5.0, np.nan], {0, 1}),
        ([1.5, -1.5, 1.0, 5.0, np.nan], {0, 1}),
        ([0.0, 0.0, 1e9, 5.0, np.nan], {2}),
        ([0.0, 0.0, 1.0, 500.0, np.nan], {3}),
        ([np.nan, 0.0, 1.0, 5.0, np.nan], {0}),
    ],
    ids=["beyond all", "strange beside the other", "a tail", "never varied", "a gap"],
)
def test_what_is_strange_is_named(familiar, row, feature):
    values = np.array(row)
    assert familiar.is_out_of_distribution(values[None]).tolist() == [True]
    assert familiar.most_unusual_feature(values) in feature


def test_a_feature_that_no_training_row_had_says_nothing(familiar):
    assert not familiar.is_out_of_distribution(np.array([[0.0, 0.0, 1.0, 5.0, 1e6]]))[0]


def with_gaps(rows=1000, seed=0):
    """Draw rows every second of which lacks the first two features."""
    values = draws(rows, seed)
    values[::2, :2] = np.nan
    return values


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_pattern_of_gaps_that_training_had_is_ordinary_and_one_that_it_never_had_is_named(seed):
    known = TrainingDistribution.from_rows(with_gaps(), np.array([f"g{row // 50}" for row in range(1000)]))
    rows = with_gaps(20_000, seed)
    bare, whole = (
        known.is_out_of_distribution(rows[::2]).mean(),
        known.is_out_of_distribution(rows[1::2]).mean(),
    )
    assert (bare < 0.02, whole < 0.02, bare + whole > 0.002) == (True, True, True)
    half, other = rows[1].copy(), rows[0].copy()
    half[0], other[2] = np.nan, np.nan
    assert (known.new_gaps(half), known.new_gaps(other)) == ([], [2])
    assert known.is_out_of_distribution(np.stack([half, other])).tolist() == [False, True]
    assert known.most_unusual_feature(other) == 2


def test_a_value_is_as_strange_where_the_others_are_unknown():
    known = TrainingDistribution.from_rows(with_gaps(), np.array([f"g{row // 50}" for row in range(1000)]))
    odd = np.array([[np.nan, np.nan, 1e9, 5.0, np.nan], [np.nan, np.nan, 1.0, 500.0, np.nan]])
    assert known.is_out_of_distribution(odd).tolist() == [True, True]
    assert [known.most_unusual_feature(row) for row in odd] == [2, 3]


def test_the_distance_of_what_is_known_is_that_by_its_own_covariance():
    known, rows = TrainingDistribution.from_rows(with_gaps(), GROUPS), with_gaps(6, 1)
    deviations = known.squashed_deviations(rows)
    covariance = np.linalg.inv(known.precision[:4, :4])
    for row, far in enumerate(known.training_distance(rows)):
        there = ~np.isnan(rows[row, :4])
        own = deviations[row, :4][there]
        square = own @ np.linalg.solve(covariance[np.ix_(there, there)], own)
        assert far == pytest.approx(np.sqrt(square / there.sum()))


def test_a_single_group_holds_nothing_out_and_calls_nothing_strange():
    rows = draws(50)
    assert not TrainingDistribution.from_rows(rows, np.full(50, "g")).is_out_of_distribution(rows * 1e6).any()
