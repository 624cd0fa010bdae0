"""Titles of the figures about matrices, on numbers that can be read off."""

import numpy as np
import pandas as pd
import pytest

from serving.matrices.charts import (
    ablation_chart,
    causes_chart,
    cost_chart,
    dimensions_chart,
    groups_chart,
    sampling_chart,
    times_chart,
    validity_chart,
    validity_sentence,
)
from serving.matrices.evaluated import TableRow, VectorScores
from serving.matrices.page import ablation_rows

SPACE = "\N{NO-BREAK SPACE}"


def curves(figure, lines, grouping="none"):
    """Make curves.parquet of {model: {x: balanced accuracy}}."""
    rows = [
        (figure, model, grouping, x, y, 0.01) for model, points in lines.items() for x, y in points.items()
    ]
    names = ["figure", "model", "grouping", "x", "balanced_accuracy", "spread"]
    return pd.DataFrame(rows, columns=names)


def test_cost_chart_title_names_the_model_with_most_gain():
    chart = cost_chart(
        curves(4, {"logistic": {1: 0.55, 10: 0.72, 50: 0.6}, "tan": {1: 0.8, 10: 0.81, 50: 0.7}}), 5
    )
    assert chart.title == (
        "Largest gain (logistic): 0.72 if a miss costs 10 times a false alarm, 0.55 if both cost the same"
    )
    assert cost_chart(curves(5, {"logistic": {1: 0.5}}), 5) is None


def test_title_states_that_cost_ratios_do_not_help():
    chart = cost_chart(curves(4, {"tan": {1: 0.8, 10: 0.805, 50: 0.7}}), 5)
    assert chart.title == "No line rises by more than 0.01 above its value if both cost the same"


def test_undersampling_begins_with_all_normal_vectors_and_names_the_grouping():
    both = [
        curves(5, {"logistic": {28: 0.5, 5: 0.6, 1: 0.7}}),
        curves(5, {"logistic": {28: 0.6, 5: 0.85, 1: 0.8}}, "given"),
    ]
    assert sampling_chart(pd.concat(both), 5).title == (
        "Largest gain (logistic, a model per group): 0.85 at a ratio of 5 normal to 1 abnormal vector, "
        "0.60 with all normal vectors"
    )


def test_dimension_chart_states_how_few_are_enough():
    chart = dimensions_chart(
        curves(6, {"tree": {5: 0.7, 25: 0.895, 200: 0.9}, "tan": {5: 0.6, 25: 0.6, 200: 0.6}}), 5
    )
    assert (
        chart.title == "tree is best with 200 dimensions (0.90), not significantly better than with 25 (0.90)"
    )


def test_time_chart_title_names_the_slowest_model():
    times = pd.DataFrame({
        "model": ["tree", "tree", "tan", "tan"], "dimensions": [5, 200] * 2, "seconds": [0.1, 2.0, 0.2, 0.5],
    })  # fmt: skip
    assert times_chart(times).title == "tree takes longest to train: 2 s with 200 dimensions, 0.1 s with 5"
    assert times_chart(times.iloc[:0]) is None


def row(name, accuracy, seeds=np.nan, model="tree", spread=0.01):
    """Give all pairs this accuracy; the vectors, which are of another form in each row, say the opposite."""
    nothing = (np.nan,) * 4
    ours, printed = VectorScores(1 - accuracy, spread, *nothing), VectorScores(seeds, np.nan, *nothing)
    return TableRow(name, model, "", ours, printed, accuracy, spread, 5)


def test_the_ablation_names_the_largest_step_and_the_largest_loss():
    steps = [row("none", 0.5), row("raw", 0.7, 0.81), row("groups", 0.75)]
    assert ablation_chart("added", [steps], alone=False).title == (
        "tree rises from 0.50 without remedies to 0.75 with all; "
        'the largest significant step (+0.20) is "raw"'
    )
    without = [row("none", 0.9), row("raw", 0.6), row("groups", 0.9)]
    assert ablation_chart("left-out", [without], alone=True).title == (
        'tree has 0.90 with all remedies; the largest significant loss (to 0.60) is that without "raw"'
    )
    spared = ablation_chart("left-out", [[row("none", 0.9), row("raw", 0.895)]], alone=True)
    assert spared.title == (
        "tree has 0.90 with all remedies; omitting a single remedy makes no significant difference"
    )
    assert ablation_chart("added", [], alone=False) is None


def test_ablation_effects_need_two_standard_errors_to_be_stated():
    rows = [row("none", 0.6, spread=0.06), row("raw", 0.75, spread=0.08), row("groups", 0.71, spread=0.08)]
    added = ablation_rows(rows, "added")
    assert added[0].worth is None
    # of 5 folds: 0.06 / 2 and 0.08 / 2
    assert added[1].worth.error == pytest.approx(0.05)
    assert (added[1].worth.gain, added[1].worth.effect) == (pytest.approx(0.15), "helps")
    assert (added[2].worth.gain, added[2].worth.effect) == (pytest.approx(-0.04), "not significant")
    assert [step.worth.effect for step in ablation_rows(rows, "left out")[1:]] == ["hurts", "hurts"]
    assert [step.worth.effect for step in ablation_rows(rows, "grouping")[1:]] == ["helps", "helps"]


def test_an_ablation_without_significant_effects_states_it():
    unsure = [row("none", 0.7, spread=0.2), row("raw", 0.74, spread=0.2), row("groups", 0.66, spread=0.2)]
    assert ablation_chart("added", [unsure], alone=False).title == (
        "tree has 0.70 without remedies and 0.66 with all, which is no significant difference; "
        "no single step is a significant gain"
    )
    fallen = [row("none", 0.8), row("raw", 0.6)]
    assert ablation_chart("added", [fallen], alone=False).title.startswith("tree falls from 0.80")


VALIDITY = pd.DataFrame(
    [
        ("rules", "", 90, 0), ("tree", "", 90, 9), ("both", "", 90, 9), ("rules", "killed", 8, 8),
        ("tree", "killed", 8, 4), ("both", "killed", 8, 8), ("rules", "disturbed", 2, 0),
        ("tree", "disturbed", 2, 1), ("both", "disturbed", 2, 1),
    ],
    columns=["judge", "kind", "runs", "rejected"],
).assign(fold=0)  # fmt: skip


def test_validity_rules_and_tree_are_compared_with_their_errors():
    assert validity_sentence(VALIDITY).replace(SPACE, "") == (
        "Of the invalid runs, the rules alone reject 80.0%, the decision tree alone 50.0%, "
        "both together 90.0%. Of the valid runs, they wrongly reject 0.0%, 10.0% and 10.0%."
    )
    assert validity_chart(VALIDITY).title == (
        "No kind of invalid run is significantly harder to detect: "
        f"rules and tree reject 50{SPACE}% to 100{SPACE}% of each"
    )
    more = VALIDITY.assign(runs=VALIDITY["runs"] * 10, rejected=VALIDITY["rejected"] * 10)
    assert validity_chart(more).title == (
        f"Runs of the kind disturbed are hardest to detect: rules and tree reject 50{SPACE}% of them"
    )


@pytest.mark.parametrize("rows", [VALIDITY.iloc[:0], VALIDITY[VALIDITY["kind"] == ""]])
def test_without_flagged_runs_there_is_no_validity_chart(rows):
    assert validity_sentence(rows).startswith("No run is flagged")
    assert validity_chart(rows) is None


def test_cause_chart_names_the_least_detected_cause():
    verdicts = pd.DataFrame(
        [
            ("leak", "fail", "fail"),
            ("leak", "fail", "pass"),
            ("polling", "fail", "fail"),
            ("", "pass", "fail"),
        ],
        columns=["cause", "status", "verdict"],
    )
    assert causes_chart(verdicts).title == (
        f"No cause is significantly harder to detect: 50{SPACE}% to 100{SPACE}% of each are detected"
    )
    assert (
        causes_chart(pd.concat([verdicts] * 9)).title
        == f"leak is detected least often: in 50{SPACE}% of 18 abnormal pairs"
    )
    assert causes_chart(verdicts.assign(cause="")) is None


def test_group_chart_states_that_groups_agree():
    groups = pd.DataFrame(
        {"workload": list("abcd"), "group": ["x", "x", "y", "y"], "automatic": list("1122")}
    )
    assert (
        groups_chart(groups).title
        == "2 automatic groups and 2 given groups agree by 1.00 (1: equal, 0: as by chance)"
    )
    assert groups_chart(groups.assign(group="x")) is None
