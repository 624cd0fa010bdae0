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


def curves(figure, lines, grouping="none"):
    """Make curves.parquet of {model: {x: balanced accuracy}}."""
    rows = [
        (figure, model, grouping, x, y, 0.01) for model, points in lines.items() for x, y in points.items()
    ]
    names = ["figure", "model", "grouping", "x", "balanced_accuracy", "spread"]
    return pd.DataFrame(rows, columns=names)


COSTS = {"logistic": {1: 0.55, 10: 0.72, 50: 0.6}, "tan": {1: 0.8, 10: 0.81, 50: 0.7}}
DIMENSIONS = {"tree": {5: 0.7, 25: 0.895, 200: 0.9}, "tan": {5: 0.6, 25: 0.6, 200: 0.6}}
LARGEST = "200 dimensions (0.90)"
EQUAL = "if a miss costs as much as a false alarm"
GAIN = "Largest gain in balanced accuracy"


@pytest.mark.parametrize(
    ("figure", "lines", "title"),
    [
        (4, COSTS, f"{GAIN} (logistic): from 0.55 {EQUAL} to 0.72 if a miss costs 10 times as much"),
        (4, {"tan": {1: 0.8, 10: 0.805}}, f"No line rises by more than 0.01 above its value {EQUAL}"),
        (6, DIMENSIONS, f"tree is best with {LARGEST}, not significantly better than with 25 (0.90)"),
    ],
)
def test_titles_of_curves_name_a_model_with_significant_gain(figure, lines, title):
    assert charts.curve_chart(curves(figure, lines), figure, 5).title == title
    assert charts.curve_chart(curves(5, lines), figure, 5) is None


def test_undersampling_begins_with_all_normal_vectors_and_names_the_grouping():
    both = [
        curves(5, {"logistic": {28: 0.5, 5: 0.6, 1: 0.7}}),
        curves(5, {"logistic": {28: 0.6, 5: 0.85, 1: 0.8}}, "given"),
    ]
    kept = "from 0.60 if all normal vectors are kept to 0.85 at a ratio of 5 normal to 1 abnormal vector"
    title = f"{GAIN} (logistic, a model per group): {kept}"
    assert charts.curve_chart(pd.concat(both), 5, 5).title == title


def steps(*accuracies, spread=0.01):
    """Give all pairs these accuracies; the vectors, which are of another form in each row, the opposite."""
    nothing = (np.nan,) * 4
    printed = VectorScores(np.nan, np.nan, *nothing)
    return [
        TableRow(name, "tree", "", VectorScores(1 - accuracy, spread, *nothing), printed, accuracy, spread, 5)
        for name, accuracy in zip(("none", "raw", "groups"), accuracies, strict=False)
    ]


REMEDIES, NO_STEP = "without remedies", "no single step is a significant gain"


@pytest.mark.parametrize(
    ("part", "rows", "titles"),
    [
        ("added", steps(0.5, 0.7, 0.75), (f"rises from 0.50 {REMEDIES} to 0.75", 'step (+0.20) is "raw"')),
        ("added", steps(0.7, 0.74, 0.66, spread=0.2), (f"is 0.70 {REMEDIES} and 0.66 with all", NO_STEP)),
        ("added", steps(0.8, 0.6), (f"falls from 0.80 {REMEDIES} to 0.60 with all", NO_STEP)),
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
    assert WorstMistakes.from_verdicts(verdicts(*RIGHT), sizes(9.0, 3.0)).rows.empty
    first = mistakes.rows.iloc[0]
    assert (first["n_beyond"], first["metric"], first["largest"]) == (1, "b", 4.0)


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
