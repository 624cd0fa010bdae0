from dataclasses import replace

import numpy as np
import pytest

from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from features.comparisons.lasting_changes import Shift
from serving.comparisons.timelines.judged import (
    OperationCourse,
    VersionSides,
    VersionVerdict,
    judged_versions,
)
from tests.comparison_rows import compared, result

PASS, UNSURE, FAIL = 1, 2, 3


def of(counts, threads=(1, 2)):
    """Return an operation with so many samples of each version: the same of every configuration."""
    counts = np.array(counts)
    values = np.random.default_rng(0).uniform(1, 2, (len(threads), counts.sum()))
    edges = np.cumsum(np.r_[0, counts]) + counts.sum() * np.arange(len(threads))[:, None]
    five = np.full((len(threads), len(counts), 5), np.nan)
    for row, at in zip(*np.nonzero(np.tile(counts, (len(threads), 1))), strict=True):
        own = values.ravel()[edges[row, at] : edges[row, at + 1]]
        five[row, at] = np.quantile(own, [0, 0.25, 0.5, 0.75, 1])
    operation = MeasuredOperation("b", "o", "s", "lower", threads, 0)
    return MeasuredVersions((operation,), values.ravel(), edges, five)


def asks(measured, shifts=()):
    (operation,) = measured.operations
    return list(OperationCourse.from_shifts(0, operation, measured, shifts).version_comparisons(0))


def told(found, *, beside):
    return {one.version: one[3:] for one in found if one.beside_baseline == beside}


def test_each_version_is_compared_with_the_last_measured_one():
    found = told(asks(of([3, 3, 0, 3])), beside=False)
    assert found == {
        1: (range(0), range(1), range(1, 2)),
        3: (range(1), range(1, 2), range(3, 4)),
    }


def test_baseline_level_excludes_the_version_under_judgement():
    found = told(asks(of([3] * 12), shifts=[Shift("drop", 8, 8, -0.1)]), beside=True)
    assert found[10] == (range(1, 8), range(1), range(10, 11))
    assert found[2][0] == range(3, 8)
    assert found[6][0] == range(1, 6)
    assert 0 not in found


def test_windows_pool_versions_with_few_samples_within_a_level():
    found = asks(of([1] * 30), shifts=[Shift("drop", 20, 20, -0.1)])
    assert told(found, beside=False)[15] == (range(5), range(5, 15), range(15, 20))
    assert told(found, beside=True)[17][1:] == (range(10), range(17, 20))
    assert told(found, beside=True)[29][1:] == (range(10), range(28, 30))
    assert {1, 29}.isdisjoint(told(found, beside=False))


def test_levels_around_a_lasting_loss_are_compared_at_its_start():
    shifts = [Shift("creep", 12, 16, -0.1), Shift("gain", 18, 18, 0.1)]
    found = asks(of([3] * 20), shifts)
    assert [one[3:] for one in found if one.version == 12 and not one.beside_baseline] == [
        (range(11), range(11, 12), range(12, 13)),
        (range(2), range(2, 12), range(16, 18)),
    ]


def test_sides_of_windows_equal_sides_of_equivalent_tables():
    measured = of([3, 4, 3, 5])
    rows = [
        result(order=order, value=value, series_id=f"{threads}", threads=threads, version=None)
        for row, threads in enumerate((1, 2))
        for order in range(4)
        for value in measured.values[measured.edges[row, order] : measured.edges[row, order + 1]]
    ]
    asked = [compared(f"{at}", "o", (at - 1, at - 1), (at, at)) for at in (1, 2, 3)]
    wanted = Sides.from_tables(ComparisonTables.from_rows(rows, asked))
    found = [one for one in asks(measured) if not one.beside_baseline]
    sides = VersionSides.from_measured(measured).comparison_sides(found)
    for name in ("comparison", "threads", "sign", "baseline_five", "target_five"):
        assert getattr(sides, name) == pytest.approx(getattr(wanted, name))
    for name in ("baseline", "target", "history", "later"):
        for row in range(6):
            mine, its = (getattr(one, name).samples_of_row(row) for one in (sides, wanted))
            assert mine.tolist() == its.tolist()


def test_summaries_are_represented_by_medians_in_windows():
    measured = of([0] * 14)
    five = np.tile(np.arange(1.0, 15)[:, None], (2, 1, 1)) + np.arange(-0.2, 0.3, 0.1)
    summaries = replace(measured, five=five)
    tenth = next(one for one in asks(summaries) if one.version == 10)
    sides = VersionSides.from_measured(summaries).comparison_sides([tenth])
    assert sides.baseline.samples_of_row(0).tolist() == list(range(1, 11))
    assert sides.target.samples_of_row(1).tolist() == [11, 12, 13, 14]


def marked(measured, fails, **changes):
    """Return the marks if these versions fail beside those before them."""

    def answering(_given, wanted):
        return [
            VersionVerdict(FAIL if one.version in fails and not one.beside_baseline else PASS, 0.9,
                          changes.get(f"v{one.version}", -0.1), lambda: "worse")
            for one in wanted
        ]  # fmt: skip

    (found,) = judged_versions(measured, 0, [()], np.full(2, 0.01), answering)
    return found, np.flatnonzero(found.against_before == FAIL).tolist()


def test_one_step_in_several_windows_or_versions_is_reported_once():
    found, failing = marked(of([1] * 40), {18, 19, 20, 22, 35}, v20=-0.3)
    assert failing == [20, 35]
    assert found.words == dict.fromkeys((20, 35), ("beside the versions before: worse",))
    assert marked(of([3] * 20), {5, 6, 8, 15})[1] == [5, 15]


def test_versions_that_are_better_or_within_noise_are_not_unsure():
    def answering(_given, wanted):
        return [VersionVerdict(UNSURE, 0.5, -0.02, lambda: "doubted") for _ in wanted]

    measured = of([3] * 20)
    medians = measured.five[..., 2]
    (found,) = judged_versions(measured, 0, [()], np.array([0.3, 0.1]), answering)
    lost = medians[:, 1:] / medians[:, :-1] - 1
    beyond = (lost > np.array([[0.3], [0.1]])).any(axis=0)
    assert 0 < beyond.sum() < len(beyond)
    assert (found.against_before[1:] == UNSURE).tolist() == beyond.tolist()
    # beside the baseline, the featured configuration, which is the last one, has to be better
    loss = medians[:, 1:] / medians[:, :1] - 1
    worse = (loss > np.array([[0.3], [0.0]])).any(axis=0)
    assert 0 < worse.sum() < len(worse)
    assert (found.against_baseline[1:] == UNSURE).tolist() == worse.tolist()
