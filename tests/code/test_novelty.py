"""Out-of-distribution scores of rows."""

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


FAMILIAR = TrainingDistribution.from_rows(draws(), GROUPS)


def test_rows_like_training_rarely_exceed_the_stated_level():
    assert FAMILIAR.is_out_of_distribution(draws(20_000, 1)).mean() < 0.015
    found = score_held_out_rows(draws(), GROUPS)
    assert (found.level, found.held_out < 0.02) == (0.01, True)


def with_gaps(rows=1000, seed=0):
    """Draw rows every second of which lacks the first two features."""
    values = draws(rows, seed)
    values[::2, :2] = np.nan
    return values


GAPPY = TrainingDistribution.from_rows(with_gaps(), np.array([f"g{row // 50}" for row in range(1000)]))


@pytest.mark.parametrize(
    ("known", "row", "feature"),
    [
        (FAMILIAR, [9.0, 9.0, 1.0, 5.0, np.nan], {0, 1}),
        (FAMILIAR, [1.5, -1.5, 1.0, 5.0, np.nan], {0, 1}),
        (FAMILIAR, [0.0, 0.0, 1e9, 5.0, np.nan], {2}),
        (FAMILIAR, [0.0, 0.0, 1.0, 500.0, np.nan], {3}),
        (FAMILIAR, [np.nan, 0.0, 1.0, 5.0, np.nan], {0}),
        (FAMILIAR, [0.0, 0.0, 1.0, 5.0, 1e6], set()),
        (GAPPY, [np.nan, np.nan, 1e9, 5.0, np.nan], {2}),
        (GAPPY, [np.nan, np.nan, 1.0, 500.0, np.nan], {3}),
    ],
    ids=["beyond all", "strange beside the other", "a tail", "never varied", "a gap", "always missing",
         "a tail beside gaps", "never varied beside gaps"],
)  # fmt: skip
def test_unusual_features_of_a_row_are_named(known, row, feature):
    values = np.array(row)
    assert known.is_out_of_distribution(values[None]).tolist() == [bool(feature)]
    assert not feature or known.most_unusual_feature(values) in feature


def test_only_unknown_patterns_of_missing_values_are_unusual():
    rows = with_gaps(20_000, 1)
    shares = [GAPPY.is_out_of_distribution(rows[start::2]).mean() for start in (0, 1)]
    assert max(shares) < 0.02
    assert sum(shares) > 0.002
    half, other = rows[1].copy(), rows[0].copy()
    half[0], other[2] = np.nan, np.nan
    assert (GAPPY.new_gaps(half), GAPPY.new_gaps(other)) == ([], [2])
    assert GAPPY.is_out_of_distribution(np.stack([half, other])).tolist() == [False, True]
    assert GAPPY.most_unusual_feature(other) == 2


def test_distance_of_partial_rows_uses_their_own_covariance():
    known, rows = TrainingDistribution.from_rows(with_gaps(), GROUPS), with_gaps(6, 1)
    deviations = known.squashed_deviations(rows)
    covariance = np.linalg.inv(known.precision[:4, :4])
    for row, far in enumerate(known.training_distance(rows)):
        there = ~np.isnan(rows[row, :4])
        own = deviations[row, :4][there]
        square = own @ np.linalg.solve(covariance[np.ix_(there, there)], own)
        assert far == pytest.approx(np.sqrt(square / there.sum()))


def test_a_single_training_group_gives_no_warnings():
    rows = draws(50)
    assert not TrainingDistribution.from_rows(rows, np.full(50, "g")).is_out_of_distribution(rows * 1e6).any()
