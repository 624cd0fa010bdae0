"""Vectors of co-runs: rates as in equation 1, the same in any order of the co-runners."""

import numpy as np
import pytest

from data.corun.tables import CorunTables
from features.corun.featurize import training_instances
from features.corun.rates import Placed, Solo, corun_matrix, corun_vectors

ALONE = {"a": (2.0, 10.0), "b": (4.0, 8.0), "c": (1.0, 3.0)}


def tables(pairs):
    """Return tables of one machine: seconds and instructions alone, and seconds beside another."""
    return CorunTables.from_rows(
        [
            {"task": t, "family": t, "machine": "m", "solo_seconds": s, "repetition": 1, "instructions": n}
            for t, (s, n) in ALONE.items()
        ],
        [
            {"task": t, "corunner_1": c, "machine": "m", "corun_seconds": s, "repetition": number}
            for number, (t, c, s) in enumerate(pairs, 1)
        ],
    )


@pytest.fixture
def solo():
    """Return what is known of the tasks alone."""
    return Solo.from_tables(tables([("a", "b", 3.0)]))


def test_a_rate_is_the_count_over_the_solo_seconds(solo):
    found = corun_vectors(solo, Placed(["a", "new"], [("b",), ("b",)], ["m", "m"]))
    rates = found[["own_instructions", "others_instructions"]].to_numpy()
    # a task without solo run has no rates
    np.testing.assert_array_equal(rates, [[5.0, 2.0], [np.nan, 2.0]])


def test_rates_of_several_corunners_add_up_in_any_order(solo):
    found = corun_vectors(solo, Placed(["a", "b", "b"], [(), ("b", "c"), ("c", "b")], ["m"] * 3))
    assert found["others_instructions"].tolist() == [0.0, 5.0, 5.0]
    assert found["most_instructions"].tolist()[1] == 3.0
    np.testing.assert_allclose(found.iloc[1].to_numpy(), found.iloc[2].to_numpy(), equal_nan=True)


def test_repetitions_become_one_row_with_the_median_impact():
    measured = tables([("a", "b", 3.0), ("a", "b", 2.4), ("a", "b", 2.6), ("b", "a", 4.4)])
    found = training_instances(measured, Solo.from_tables(measured))
    assert found[["task", "repetitions", "impact"]].to_numpy().tolist() == [["a", 3, 1.3], ["b", 1, 1.1]]
    assert found["families"].tolist() == ["a+b", "a+b"]


def test_features_of_several_rows_equal_those_of_each_alone(solo):
    rows = [("a", ("b",), "m"), ("c", ("c",), "m"), ("new", ("a",), "m"), ("b", ("a",), "elsewhere")]
    together = corun_matrix(solo, Placed(*map(list, zip(*rows, strict=True))))
    for row, (task, corunners, machine) in zip(together, rows, strict=True):
        alone = corun_matrix(solo, Placed([task], [corunners], [machine]))[0]
        np.testing.assert_array_equal(row, alone)
