"""The unit of samples changes no verdict, from the smallest to the largest numbers there are."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.sides import NamedSides, Sides
from serving.comparisons.judge import judge_sides
from serving.models import ModelRef, Served
from tests.model.comparisons.measured_models import measured_tables, trained
from training.comparisons.stored import ReadyModel

#: A power of two times each of these is finite and normal.
LEAST, MOST = -1020, 1022


@cache
def shipped():
    """Return some of the shipped comparisons, with history, siblings and several configurations."""
    tables = measured_tables()
    return replace(tables, comparisons=tables.comparisons.iloc[::14].reset_index(drop=True))


def multiplied(factor):
    results = shipped().results
    return replace(shipped(), results=results.assign(value=results["value"] * factor))


@pytest.fixture(scope="module", params=["logistic", "extra-trees"])
def served(request):
    return Served(ReadyModel.from_trained(trained(request.param)), ModelRef("some", "1", "some/1"))


def said(served, factor):
    """Return verdicts, probabilities and changes, and what is said beside them that names no value."""
    found = judge_sides(NamedSides.from_tables(multiplied(factor)), served)
    changes = np.array([one.moved.change if one.moved else np.nan for one in found.verdicts])
    probabilities = np.array([one.probability for one in found.verdicts], np.float64)
    return (
        found.answers.tolist(),
        probabilities,
        changes,
        [one.counterfactual_change for one in found.verdicts],
    )


@pytest.fixture(scope="module")
def usual(served):
    return said(served, 1.0)


@settings(max_examples=16)
@given(data=st.data())
def test_the_unit_changes_no_verdict_and_a_power_of_two_nothing(served, usual, data):
    values = shipped().results["value"]
    low, high = LEAST - np.log2(values.min()), MOST - np.log2(values.max())
    base, exponents = data.draw(
        st.sampled_from([(2.0, st.integers(int(np.ceil(low)), int(high))), (10.0, st.integers(-290, 290))])
    )
    verdicts, probabilities, changes, flips = said(served, base ** data.draw(exponents))
    assert verdicts == usual[0]
    same = np.isclose(probabilities, usual[1], rtol=0, atol=1e-9)
    if base == 2:
        assert (same.all(), flips) == (True, usual[3])
        np.testing.assert_allclose(changes, usual[2], rtol=0, atol=1e-9)
    # a decimal factor rounds every sample: two that differ in the last bit may become equal
    assert same.mean() > 0.98


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**900])
def test_overflow_protection_leaves_ratios_exactly_unchanged(factor):
    sides, extreme = Sides.from_tables(shipped()), Sides.from_tables(multiplied(factor))
    assert sides.overflow_safe is sides
    assert extreme.overflow_safe.overflow_safe is extreme.overflow_safe
    of_usual, of_extreme = (one.target_five / one.baseline_five for one in (sides, extreme.overflow_safe))
    np.testing.assert_array_equal(of_usual, of_extreme)
