"""Titles of the figures about matrices, and the worst mistakes, on numbers that can be read off."""

import numpy as np
import pandas as pd
import pytest

from serving.matrices import charts
from serving.matrices.evaluated import TableRow, VectorScores
from serving.matrices.mistakes import WorstMistakes, mistakes_chart, noise_units
from serving.matrices.page import ablation_rows
from tests.matrix_pairs import MOVED, pairs

SPACE = "\N{NO-BREAK SPACE}"


EQUAL = "if a miss costs as much as a false alarm"
GAIN = "Largest gain in balanced accuracy"
KEPT = "from 0.60 if all normal vectors are kept to 0.85 at a ratio of 5 normal to 1 abnormal vector"


#: Titles of the figures of curves; the balanced accuracies of a model and its grouping by x.
CURVES = {
    (4, f"{GAIN} (logistic): from 0.55 {EQUAL} to 0.72 if a miss costs 10 times as much"): {
        "logistic none": {1: 0.55, 10: 0.72, 50: 0.6}, "tan none": {1: 0.8, 10: 0.81, 50: 0.7},
    },
    (4, f"No line rises by more than 0.01 above its value {EQUAL}"): {"tan none": {1: 0.8, 10: 0.805}},
    (5, f"{GAIN} (logistic, a model per group): {KEPT}"): {
        "logistic none": {28: 0.5, 5: 0.6, 1: 0.7}, "logistic given": {28: 0.6, 5: 0.85, 1: 0.8},
    },
    (6, "tree is best with 200 dimensions (0.90), not significantly better than with 25 (0.90)"): {
        "tree none": {5: 0.7, 25: 0.895, 200: 0.9}, "tan none": {5: 0.6, 25: 0.6, 200: 0.6},
    },
}  # fmt: skip


@pytest.mark.parametrize(("figure", "title"), CURVES)
def test_titles_of_curves_name_a_model_with_significant_gain(figure, title):
    rows = [
        (figure, *name.split(), x, accuracy, 0.01)
        for name, points in CURVES[figure, title].items()
        for x, accuracy in points.items()
    ]
    columns = ["figure", "model", "grouping", "x", "balanced_accuracy", "spread"]
    curves = pd.DataFrame(rows, columns=columns)
    assert charts.curve_chart(curves, figure, 5).title == title
    assert charts.curve_chart(curves.assign(figure=3), figure, 5) is None


def steps(*accuracies, spread=0.01):
    """Give all pairs these accuracies; the vectors, which are of another form in each row, the opposite."""
    nothing = (np.nan,) * 4
    printed = VectorScores(np.nan, np.nan, *nothing)
    return [
        TableRow(name, "tree", "", VectorScores(1 - accuracy, spread, *nothing), printed, accuracy, spread, 5)
        for name, accuracy in zip(("none", "raw", "groups"), accuracies, strict=False)
    ]


NO_STEP = "no single step is a significant gain"


@pytest.mark.parametrize(
    ("part", "rows", "titles"),
    [
        ("added", steps(0.5, 0.7, 0.75), ("rises from 0.50 without remedies", 'step (+0.20) is "raw"')),
        ("added", steps(0.7, 0.74, 0.66, spread=0.2), ("is 0.70 without remedies and 0.66 with", NO_STEP)),
        ("added", steps(0.8, 0.6), ("falls from 0.80 without remedies to 0.60 with all", NO_STEP)),
        ("left-out", steps(0.9, 0.6, 0.9), ("is 0.90 with all remedies", 'comes from omitting "raw"')),
        ("left-out", steps(0.9, 0.895), ("is 0.90 with all", "remedy makes no significant difference")),
    ],
)
def test_the_ablation_names_the_largest_significant_step_or_loss(part, rows, titles):
    chart = charts.ablation_chart(part, [rows], alone=part == "left-out")
    assert chart.title.startswith(f"Balanced accuracy of tree {titles[0]}")
    assert chart.title.endswith(titles[1])
    assert charts.ablation_chart(part, [], alone=False) is None


def test_ablation_effects_need_two_standard_errors_to_be_stated():
    rows = [*steps(0.6, spread=0.06), *steps(0.6, 0.75, 0.71, spread=0.08)[1:]]
    first, *added = (step.worth for step in ablation_rows(rows, "added"))
    assert first is None
    # of 5 folds: 0.06 / 2 and 0.08 / 2
    assert added[0].error == pytest.approx(0.05)
    assert [worth.gain for worth in added] == pytest.approx([0.15, -0.04])
    assert [worth.effect for worth in added] == ["helps", "not significant"]
    for part, effect in (("left out", "hurts"), ("grouping", "helps")):
        assert [step.worth.effect for step in ablation_rows(rows, part)[1:]] == [effect, effect]


REJECTED = {("", 90): (0, 9, 9), ("killed", 8): (8, 4, 8), ("disturbed", 2): (0, 1, 1)}
VALIDITY = pd.DataFrame(
    {"judge": judge, "kind": kind, "runs": runs, "rejected": count, "fold": 0}
    for (kind, runs), counts in REJECTED.items()
    for judge, count in zip(("rules", "tree", "both"), counts, strict=True)
)


def test_validity_rules_and_tree_are_compared_with_their_errors():
    assert charts.validity_sentence(VALIDITY).replace(SPACE, "") == (
        "Of the invalid runs, the fixed rules alone reject 80.0%, the decision tree alone 50.0%, "
        "both together 90.0%. Of the valid runs, they wrongly reject 0.0%, 10.0% and 10.0%, in the same "
        "order."
    )
    title = "No kind of invalid run is significantly harder to detect: rules and tree reject 50% to 100%"
    assert charts.validity_chart(VALIDITY).title.replace(SPACE, "") == f"{title} of each"
    more = VALIDITY.assign(runs=VALIDITY["runs"] * 10, rejected=VALIDITY["rejected"] * 10)
    title = 'Invalid runs of the kind "disturbed" are hardest to detect: rules and tree reject 50% of them'
    assert charts.validity_chart(more).title.replace(SPACE, "") == title
    for unflagged in (VALIDITY.iloc[:0], VALIDITY[VALIDITY["kind"] == ""]):
        assert charts.validity_sentence(unflagged).startswith("No run is flagged")
        assert charts.validity_chart(unflagged) is None


def test_cause_chart_names_the_least_detected_cause():
    columns = {"cause": ["leak", "leak", "polling", ""], "status": ["fail"] * 3 + ["pass"]}
    verdicts = pd.DataFrame(columns | {"verdict": ["fail", "pass", "fail", "fail"]})
    title = "No cause is significantly harder to detect: 50% to 100% of each are detected"
    assert charts.causes_chart(verdicts).title.replace(SPACE, "") == title
    title = "leak is detected least often: in 50% of 18 abnormal pairs"
    assert charts.causes_chart(pd.concat([verdicts] * 9)).title.replace(SPACE, "") == title
    assert charts.causes_chart(verdicts.assign(cause="")) is None


def worst_mistakes(rows, largest):
    """Find mistakes in (probability, status, group, cause, size) of pairs; the metric b differs most."""
    names = ["probability", "status", "group", "cause", "cause_size"]
    verdicts = pd.DataFrame(rows, columns=names, index=[f"p{row}" for row in range(len(rows))])
    called = np.where(verdicts["probability"] >= 0.5, "fail", "pass")
    differences = pd.DataFrame({"a": 0.5, "b": largest}, index=verdicts.index, dtype="float64")
    verdicts = verdicts.assign(pair_id=verdicts.index, threshold=0.5, verdict=called)
    return WorstMistakes.from_verdicts(verdicts, differences)


MISS, ALARM = (0.1, "fail", "g", "quota", 0.2), (0.9, "pass", "g", "", np.nan)
RIGHT = [(0.9, "fail", "g", "quota", 0.1), (0.1, "pass", "g", "", np.nan)]


def test_at_most_twenty_mistakes_are_listed_by_confidence():
    rows = [(0.5 + 0.01 * number, "pass", "g", "", np.nan) for number in range(1, 26)]
    mistakes = worst_mistakes([*rows, *RIGHT], 4.0).rows
    assert mistakes["pair_id"].tolist() == [f"p{number}" for number in range(24, 4, -1)]
    assert mistakes.iloc[0][["n_beyond", "metric", "largest"]].tolist() == [1, "b", 4.0]
    assert worst_mistakes(RIGHT, [9.0, 3.0]).rows.empty


@pytest.mark.parametrize(
    ("mistake", "largest", "is_marked"),
    [(MISS, 3.0, True), (MISS, 3.1, False), (ALARM, 9.0, True), (ALARM, 8.9, False), (ALARM, np.nan, False)],
)
def test_pairs_like_the_median_of_the_other_label_are_marked(mistake, largest, is_marked):
    # the medians are 3 of normal pairs and 9 of abnormal ones, without the mistake's own label
    mistakes = worst_mistakes([mistake, *RIGHT], [largest, 9.0, 3.0])
    assert mistakes.rows["is_undecidable"].tolist() == [is_marked]
    assert ("p0 *" in mistakes_chart(mistakes).svg) == is_marked


def test_causes_of_mistakes_need_a_significant_excess():
    alarms = [(0.9, "pass", "busy", "", np.nan)] * 6
    right = [(0.1, "pass", f"g{number % 5}", "", np.nan) for number in range(50)]
    found = worst_mistakes([*alarms, *right, *RIGHT], 1.0).causes
    assert found.startswith("Significantly more frequent among these 6 pairs than among all 58 (")
    assert found.endswith(f': workload group "busy" (6 of 6; 10.3{SPACE}% of all).')
    spread = [(*row[:2], f"g{number % 5}", *row[3:]) for number, row in enumerate([*alarms, *right, *RIGHT])]
    none = "No workload group, no cause and no cause size is significantly more frequent"
    assert worst_mistakes(spread, 1.0).causes.startswith(none)


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
