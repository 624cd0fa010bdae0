import pandas as pd
import pytest

from data.comparisons.tables import LABEL_DTYPES
from data.tables.specs import typed
from training.comparisons.label_review import doubts, suspects

#: Of two folds on other scales: the label, and what a model that had not seen it gives.
HELD_OUT = [
    (0, "fail", 0.9), (0, "fail", 0.8), (0, "fail", 0.05),
    (0, "pass", 0.1), (0, "pass", 0.2), (0, "pass", 0.85),
    (1, "fail", 0.4), (1, "fail", 0.3), (1, "pass", 0.1), (1, "pass", 0.38), (1, "pass", 0.0),
]  # fmt: skip


@pytest.fixture
def verdicts():
    """Two models on the same folds; the second agrees with every label but the first wrong one."""
    table = pd.DataFrame(HELD_OUT, columns=["fold", "status", "probability"])
    table["comparison_id"] = [f"c{row:02}" for row in range(len(table))]
    table["verdict"] = (table["probability"] >= 0.25).map({True: "fail", False: "pass"})
    other = table.assign(entry="other", verdict=table["status"])
    other.loc[2, "verdict"] = "pass"
    return pd.concat([table.assign(entry="champion"), other], ignore_index=True)


def labels_of(rows):
    names = ["comparison_id", "status", "labelled_by", "annotator"]
    return typed(pd.DataFrame(rows, columns=names), LABEL_DTYPES)


def test_a_label_is_suspected_as_far_as_models_are_surer_of_the_other_verdict_than_usual(verdicts):
    found = suspects(verdicts, "champion", labels_of([("c02", "fail", "anna", None)]))
    assert [(one.comparison_id, one.status, one.labelled_by) for one in found] == [
        ("c02", "fail", "anna"),
        ("c05", "pass", "unknown"),
        ("c09", "pass", "unknown"),
    ]
    # 0.95 beside the mean of 0.9, 0.8, 0.15; 0.85 beside that of 0.9, 0.8, 0.05; 0.38 beside that of 0.4, 0.3
    assert [one.doubt for one in found] == pytest.approx([1 / 3, 0.8 / 3, 0.03])
    assert found[0].why == ("models that never saw it give fail 0.05", "2 of 2 models gainsay the label")


def test_comparisons_on_which_people_differ_follow_with_who_says_what(verdicts):
    people = [("c00", "fail", "anna", "anna"), ("c00", "fail", "ben", "ben"), ("c00", "pass", "cleo", "cleo")]
    last = suspects(verdicts, "champion", labels_of(people))[-1]
    assert (last.comparison_id, last.doubt, last.labelled_by) == ("c00", 0, "anna, ben, cleo")
    assert last.why == ("anna, ben said fail", "cleo said pass")


def test_a_fold_without_a_kind_of_label_gives_no_ground_for_doubt(verdicts):
    own = verdicts[(verdicts["entry"] == "champion") & (verdicts["status"] == "pass")]
    assert pd.isna(doubts(own)).all()
