"""A promise is kept on groups that had no say in it, and what cannot be promised is not."""

import numpy as np
import pytest

from data.errors import InputError
from training.evaluation.cuts import Cuts, VerdictCosts, Wish, cuts_for, nearest
from training.evaluation.promise import Promise, Promised, kept, needed

SPLITS = 200


def cases(generator, groups, each, alike):
    """Return scores of fails: a share `alike` of their variance is their group's."""
    group = np.repeat(np.arange(groups), each)
    own = np.sqrt(1 - alike) * generator.normal(size=len(group))
    return own + np.sqrt(alike) * generator.normal(size=groups)[group], group.astype(str)


@pytest.mark.parametrize(("groups", "each", "alike"), [(200, 1, 0.0), (60, 4, 0.0), (60, 4, 0.8)])
@pytest.mark.parametrize("share", [0.05, 0.1])
def test_of_many_splits_by_groups_nine_in_ten_keep_the_promise(groups, each, alike, share):
    generator = np.random.default_rng(groups + each)
    held = []
    for split in range(SPLITS):
        scores, group = cases(generator, groups, each, alike)
        others, _ = cases(generator, groups // 2, each, alike)
        (one,) = kept(scores, group, [share], 0.9, split)
        held.append(one.cut is None or (others < one.cut).mean() <= share)
    assert np.mean(held) >= 0.9


def test_a_promise_is_no_stricter_than_it_must_be():
    scores, group = cases(np.random.default_rng(0), 1000, 2, 0.2)
    (one,) = kept(scores, group, [0.1], 0.9, 0)
    assert 0.05 < (scores < one.cut).mean() < 0.1
    assert one.measured < 0.1
    assert one.held >= 0.95


def test_alike_cases_of_few_groups_promise_less_than_as_many_of_different_ones():
    scores = np.sort(np.random.default_rng(1).normal(size=300))
    many, few = np.arange(300).astype(str), (np.arange(300) // 10).astype(str)
    (loose,), (strict,) = kept(scores, many, [0.1], 0.9, 0), kept(scores, few, [0.1], 0.9, 0)
    assert strict.cut is None or strict.cut < loose.cut


@pytest.mark.parametrize(("share", "fails"), [(0.02, 114), (0.05, 45), (0.1, 22)])
def test_with_fewer_fails_than_it_takes_nothing_is_promised(share, fails):
    assert needed(share, 0.9) == fails
    scores = np.random.default_rng(0).normal(size=fails - 1)
    (one,) = kept(scores, np.arange(fails - 1).astype(str), [share], 0.9, 0)
    assert one == Promised(share, None)


PROMISE = Promise(
    0.9,
    60,
    30,
    (Promised(0.02, None), Promised(0.05, 0.1), Promised(0.2, 0.6)),
    (Promised(0.01, 0.8), Promised(0.1, 0.2)),
)


@pytest.mark.parametrize(
    ("wish", "low", "high"),
    [
        (Wish(), 0.4, 0.4),
        (Wish(missed=0.05), 0.1, 0.4),
        (Wish(missed=0.2), 0.4, 0.4),
        (Wish(false_alarms=0.01), 0.4, 0.8),
        (Wish(false_alarms=0.1), 0.4, 0.4),
        (Wish(missed=0.05, false_alarms=0.01), 0.1, 0.8),
        (Wish(missed=0.2, false_alarms=0.1), 0.4, 0.4),
        (Wish(missed=0.02), 0.0, 0.4),
        (Wish(costs=VerdictCosts(100, 10, 1)), 0.01, 0.9),
        (Wish(costs=VerdictCosts(3, 1, 2)), 0.25, 0.25),
    ],
)
def test_unsure_lies_between_the_cuts_that_keep_what_is_wished_for(wish, low, high):
    found = cuts_for(PROMISE, 0.4, wish)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_what_the_model_was_not_trained_to_promise_is_refused_with_what_it_can():
    with pytest.raises(InputError, match=r"missed=3 %: the model can promise one of 2, 5, 20 %"):
        cuts_for(PROMISE, 0.4, Wish(missed=0.03))
    with pytest.raises(InputError, match="missed: the model was trained without a promise"):
        cuts_for(None, 0.4, Wish(missed=0.05))


def test_looks_are_the_share_that_is_asked_for():
    probability = np.random.default_rng(0).beta(0.5, 0.5, 1000)
    below = cuts_for(None, 0.4, Wish(looks=0.05), probability)
    around = nearest(0.4, probability, 0.05)
    for cuts in (below, around):
        assert (cuts.answers(probability) == "unsure").mean() == pytest.approx(0.05)
    assert below.high == 0.4
    assert around.low < 0.4 < around.high


def test_the_cuts_themselves_are_unsure_and_fail_and_no_number_is_invalid():
    said = Cuts(0.2, 0.6).answers(np.array([0.1, 0.2, 0.6, np.nan]))
    assert said.tolist() == ["pass", "unsure", "fail", "invalid"]
