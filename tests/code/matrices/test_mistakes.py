"""The worst mistakes on pairs of matrices: order, marks, causes and differences."""

import numpy as np
import pandas as pd
import pytest

from serving.matrices.mistakes import WorstMistakes, mistakes_chart, noise_units
from tests.matrix_pairs import MOVED, pairs

SPACE = "\N{NO-BREAK SPACE}"


def verdicts(*rows, threshold=0.5):
    """Make held-out verdicts of (probability, status, group, cause, size) at one threshold."""
    names = ["probability", "status", "group", "cause", "cause_size"]
    frame = pd.DataFrame(rows, columns=names).assign(threshold=threshold)
    called = np.where(frame["probability"] >= threshold, "fail", "pass")
    return frame.assign(pair_id=[f"p{row}" for row in range(len(frame))], verdict=called)


def sizes(*largest):
    """Make differences of two metrics, of which the second is the largest."""
    rows = [f"p{row}" for row in range(len(largest))]
    return pd.DataFrame({"a": 0.5, "b": largest}, index=rows).astype("float64")


MISS, ALARM = (0.1, "fail", "g", "quota", 0.2), (0.9, "pass", "g", "", np.nan)
RIGHT = [(0.9, "fail", "g", "quota", 0.1), (0.1, "pass", "g", "", np.nan)]


def test_at_most_twenty_mistakes_are_listed_by_confidence():
    rows = [(0.5 + 0.01 * number, "pass", "g", "", np.nan) for number in range(1, 26)]
    mistakes = WorstMistakes.from_verdicts(verdicts(*rows, *RIGHT), sizes(*[4.0] * 27))
    assert mistakes.rows["pair_id"].tolist() == [f"p{number}" for number in range(24, 4, -1)]
    first = mistakes.rows.iloc[0]
    assert (first["n_beyond"], first["metric"], first["largest"]) == (1, "b", 4.0)


def test_a_champion_without_mistakes_has_an_empty_list():
    assert WorstMistakes.from_verdicts(verdicts(*RIGHT), sizes(9.0, 3.0)).rows.empty


@pytest.mark.parametrize(
    ("mistake", "largest", "is_marked"),
    [(MISS, 3.0, True), (MISS, 3.1, False), (ALARM, 9.0, True), (ALARM, 8.9, False), (ALARM, np.nan, False)],
)
def test_pairs_like_the_median_of_the_other_label_are_marked(mistake, largest, is_marked):
    # the medians are 3 of normal pairs and 9 of abnormal ones, without the mistake's own label
    mistakes = WorstMistakes.from_verdicts(verdicts(mistake, *RIGHT), sizes(largest, 9.0, 3.0))
    assert mistakes.rows["is_undecidable"].tolist() == [is_marked]
    assert ("p0 *" in mistakes_chart(mistakes).svg) == is_marked


def test_causes_of_mistakes_need_a_significant_excess():
    alarms = [(0.9, "pass", "busy", "", np.nan)] * 6
    right = [(0.1, "pass", f"g{number % 5}", "", np.nan) for number in range(50)]
    held_out = verdicts(*alarms, *right, *RIGHT)
    found = WorstMistakes.from_verdicts(held_out, sizes(*[1.0] * 58)).causes
    assert found.startswith("Significantly more frequent among these 6 pairs than among all 58 (")
    assert found.endswith(f': workload group "busy" (6 of 6; 10.3{SPACE}% of all).')
    spread = held_out.assign(group=[f"g{number % 5}" for number in range(58)])
    none = WorstMistakes.from_verdicts(spread, sizes(*[1.0] * 58)).causes
    assert none.startswith("No workload group, no cause and no cause size is significantly more frequent")


def test_the_title_compares_mistakes_with_normal_pairs():
    mistakes = WorstMistakes.from_verdicts(verdicts(MISS, ALARM, *RIGHT), sizes(1.0, 5.0, 9.0, 2.0))
    assert mistakes_chart(mistakes).title == (
        "In 1 of 1 false alarm and 0 of 1 missed pair, the largest difference of a metric is above "
        "3.5 units of noise, the median of normal pairs"
    )


def test_noise_of_a_pair_comes_from_other_folds():
    tables = pairs()
    cases = tables.runs.drop_duplicates("pair_id").set_index("pair_id")["workload"]
    found = noise_units(tables, cases.str[-1].astype(int) % 2)
    assert set(found.index) == set(cases.index)
    assert list(found.columns) == tables.raw_metrics
    abnormal = found.index.str[-1].astype(int) % 3 == 0
    assert set(found[abnormal].idxmax(axis="columns")) == set(MOVED)
    assert found[~abnormal].median().max() < 1
    assert found.loc[abnormal, list(MOVED)].median().min() > 3
    louder = tables.runs.copy()
    louder.loc[louder["workload"].eq("g0 c0") & louder["side"].eq("target"), tables.raw_metrics] *= 5
    # the change of a fold's own pair does not enter its noise
    changed = noise_units(tables.with_runs(louder), cases.str[-1].astype(int) % 2)
    same_fold = [pair for pair in found.index if pair.startswith(("g0 c2", "g0 c4"))]
    pd.testing.assert_frame_equal(changed.loc[same_fold], found.loc[same_fold])
    other_fold = [pair for pair in found.index if pair.startswith("g0 c1")]
    assert (changed.loc[other_fold] < found.loc[other_fold]).to_numpy().all()
