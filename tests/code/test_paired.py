from dataclasses import replace

import pandas as pd
import pytest

from training.evaluation.paired_bootstrap import BootstrapSettings, OutOfFoldPredictions, compare_entries

HOW = BootstrapSettings(200, 0.95, 1)


def words(letters):
    return [{"p": "pass", "f": "fail"}[letter] for letter in letters]


RIGHT = "fpfpfpfp"


def verdicts(letters, **columns):
    """Return verdicts of eight cases, two of an operation; the labels are `RIGHT`."""
    rows = pd.DataFrame({"case": list("abcdefgh"), "group": list("11223344"), "verdict": words(letters)})
    rows = rows.assign(status=words(RIGHT), probability=0.5, threshold=0.4, fold=[0] * 4 + [1] * 4)
    return OutOfFoldPredictions("comparisons", "m", rows.assign(**columns))


def found(one):
    return {score.score: (score.before, score.after, score.direction) for score in one.scores}


def test_scores_are_compared_with_group_bootstrap_intervals():
    one = compare_entries(verdicts("pppppppp"), verdicts(RIGHT), HOW)
    assert found(one) == {
        "balanced accuracy": (0.5, 1.0, "better"),
        "missed": (1.0, 0.0, "better"),
        "false alarms": (0.0, 0.0, "the same"),
    }
    assert one.scores[0].difference.low == one.scores[0].difference.high == 0.5


def test_differences_in_few_groups_are_not_significant():
    one = compare_entries(verdicts(RIGHT), verdicts("fpfpfppp"), HOW)
    assert found(one)["missed"] == (0.0, 0.25, "cannot be told apart")
    assert not one.is_unchanged


def test_changed_verdicts_list_new_mistakes_first():
    before = verdicts("pffpfpfp", probability=[0.1, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    after = verdicts("fpppfpfp", words=["", "", "loud", "", "", "", "", ""])
    flips = compare_entries(before, after, HOW).flipped
    assert [(one.case, one.label, one.before.verdict, one.after.verdict) for one in flips] == [
        ("c", "fail", "fail", "pass"), ("a", "fail", "pass", "fail"), ("b", "pass", "fail", "pass"),
    ]  # fmt: skip
    assert [one.righted for one in flips] == [False, True, True]
    assert (flips[1].before.value, flips[1].after.value, flips[0].words) == (0.1, 0.5, ("loud",))


def test_only_common_cases_are_scored_and_others_counted():
    before = verdicts(RIGHT)
    one = compare_entries(before, replace(before, rows=before.rows[3:]), HOW)
    assert (one.common, one.only_before, one.only_after, one.is_unchanged) == (5, 3, 0, True)
    one = compare_entries(before, verdicts(RIGHT, case=list("ijklmnop")), HOW)
    assert (one.common, one.only_before, one.only_after, one.is_unchanged) == (0, 8, 8, False)
    assert (one.scores, one.flipped) == ((), ())


def test_both_entries_are_scored_by_the_current_labels():
    one = compare_entries(verdicts(RIGHT), verdicts(RIGHT, status=words("ppfpfpfp")), HOW)
    assert one.relabelled == ("a",)
    assert found(one)["false alarms"][:2] == (0.2, 0.2)


@pytest.mark.parametrize(("folds", "other"), [([1] * 4 + [0] * 4, 0), ([0, 0, 1, 1] * 2, 4)])
def test_folds_are_equal_if_cases_are_grouped_equally(folds, other):
    assert compare_entries(verdicts(RIGHT), verdicts(RIGHT, fold=folds), HOW).other_folds == other


def test_missing_labels_and_groups_come_from_the_other_entry():
    bare = OutOfFoldPredictions("comparisons", "old", verdicts("pppppppp").rows[["case", "verdict"]])
    for sides in ((bare, verdicts(RIGHT)), (verdicts(RIGHT), bare)):
        one = compare_entries(*sides, HOW)
        assert {0.5, 1.0} == set(found(one)["balanced accuracy"][:2])
        assert len(one.flipped) == 4
        assert {None, 0.5} == {side.value for side in (one.flipped[0].before, one.flipped[0].after)}
        assert one.relabelled == ()


def test_numeric_predictions_are_compared_by_error_and_tolerance():
    rows = pd.DataFrame({"case": list("abcd"), "group": list("abcd"), "measured": 100.0})
    before, after = (
        OutOfFoldPredictions("co-runs", "m", rows.assign(predicted=predicted), 0.03)
        for predicted in ([110.0, 101.0, 101.0, 101.0], [101.0, 101.0, 101.0, 104.0])
    )
    one = compare_entries(before, after, HOW)
    assert {name: values[:2] for name, values in found(one).items()} == {
        "mean error": (pytest.approx(0.0325), pytest.approx(0.0175)),
        "outside the tolerance": (0.25, 0.25),
    }
    assert [(flip.case, flip.label, flip.after.verdict, flip.after.value) for flip in one.flipped] == [
        ("d", "100", "outside", 104.0), ("a", "100", "within", 101.0),
    ]  # fmt: skip
