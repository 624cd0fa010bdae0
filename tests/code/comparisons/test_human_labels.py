import numpy as np
import pandas as pd
import pytest

from benchmarks.human_labels import cases
from benchmarks.human_labels.__main__ import main
from benchmarks.human_labels.reference_tools import TOOLS
from data.comparisons.formats.sap_hana import Annotations
from data.comparisons.params import LabelRules

RULES = LabelRules(
    versions_before=4, versions_after=3, clean_every=4, min_annotators=2, match_window=2, exclusion_window=3
)
CASES = cases.Cases(list("abcdef"), np.array([1, 1, 1, 0, 0, 0], bool), np.array([0, 0, 1, 0, 1, 1]))
SCORE = np.array([9.0, 4.0, 0.0, 5.0, 1.0, 0.0])


def series(values, better="lower"):
    rows = pd.DataFrame({"order": np.repeat(range(len(values)), 2), "value": np.repeat(values, 2)})
    return cases.VersionedSeries.of(rows.assign(better=better, value=rows["value"] + [0, 0.1] * len(values)))


def comparison(operation, at):
    ends = {"target_from": at, "target_to": at + RULES.versions_after - 1}
    return {"operation": operation, "baseline_from": at - RULES.versions_before, **ends}


def points(*found):
    stretch, position, strength = np.array(found, float).reshape(-1, 3).T
    return cases.Points(stretch.astype(int), position.astype(int), strength)


def test_error_curve_has_every_threshold_and_the_best_one():
    curve = cases.Curve.of(CASES.failed, SCORE)
    assert curve.cuts.tolist() == [np.inf, 9, 5, 4, 1, 0]
    assert curve.false_negative_rate * 3 == pytest.approx([3, 2, 2, 1, 1, 0])
    assert curve.false_positive_rate * 3 == pytest.approx([0, 0, 1, 1, 2, 3])
    assert cases.rates_at_best_cut(CASES, SCORE).balanced == pytest.approx(2 / 3)
    assert [curve.false_negative_rate_at(share) for share in (0, 0.4, 1)] == pytest.approx([2 / 3, 1 / 3, 0])
    # the reported spread is over the folds
    found = cases.verdict_rates(CASES, np.array([1, 1, 0, 0, 0, 0], bool))
    assert (found.balanced, found.spread) == pytest.approx((5 / 6, 0.25))


def test_thresholds_are_chosen_on_the_other_folds_only():
    score = np.array([9.0, 8.0, 2.0, 7.0, 1.0, 1.0])
    # fold 1 alone wants 2, which fails the 7 of fold 0; fold 0 alone wants 8, which misses the 2 of fold 1
    found = cases.rates_from_other_folds(CASES, score)
    assert (found.false_negative_rate, found.false_positive_rate) == pytest.approx((1 / 3, 1 / 3))
    assert cases.rates_at_best_cut(CASES, score).balanced > found.balanced
    assert cases.average_precision(CASES, score)[0] == pytest.approx(1.0)


def test_only_worsening_points_near_the_boundary_are_evidence_in_reach():
    known = {"up": series([10] * 8 + [20] * 8), "down": series([20] * 8 + [10] * 8)}
    asked = pd.DataFrame([comparison("up", 8), comparison("down", 8), comparison("up", 4)])
    view = cases.hindsight_view(known, asked, RULES)
    assert view.owner.tolist() == [1, 0, 1]
    evidence = view.evidence(points((1, 8, 3.0), (1, 9, 7.0), (1, 14, 9.0), (0, 8, 5.0)))
    np.testing.assert_array_equal(evidence[0], [np.nan, np.nan, 3, 7, np.nan])
    assert np.isnan(evidence[1:]).all()
    # the reach is chosen in the tool's favour
    evidence = np.full((6, 5), np.nan)
    evidence[:3, 1], evidence[3:, 0] = 2.0, 9.0
    reach, score = cases.best_reach(CASES, evidence)
    assert (reach, score.tolist()) == (1, [2, 2, 2, 0, 0, 0])


def test_a_window_ends_with_the_target():
    known = {"up": series([10.0] * 60 + [20.0] * 20, "higher")}
    view = cases.online_view(known, pd.DataFrame([comparison("up", 60)]), RULES)
    assert view.stretches[0].medians.tolist() == [10.05] * 44 + [20.05] * 3
    assert view.place.tolist() == [44]
    assert not view.worse.any()


def test_an_engineer_is_judged_by_the_consensus_of_the_others():
    marks = {"1": [8], "2": [9], "3": [], "4": [8, 20]}
    notes = [Annotations("sap_1", 0, None, marks)]
    looked = cases.ReviewedSeries.of("up", series([10] * 8 + [20] * 16), notes)
    said = {name: list(looked.verdicts(name, RULES)) for name in marks}
    assert ("sap-hana/up/8", True, True) in said["1"]
    assert [one[1:] for one in said["3"] if one[1]] == [(True, False)]
    # what only the fourth marked is clean to the others, and nothing got worse there
    assert ("sap-hana/up/20", False, False) in said["4"]
    verdicts = [cases.Engineer(name, *map(np.array, zip(*own, strict=True))) for name, own in said.items()]
    rates = cases.pool_engineers(verdicts).engineer_rates
    assert rates.false_negative_rate == pytest.approx(1 / 4)


def test_engineer_and_model_are_compared_on_common_cases():
    many = cases.Engineer("7", [*"xfba"], np.array([1, 0, 1, 1], bool), np.array([1, 0, 0, 1], bool))
    here, other = many.limited_to(CASES, np.array([0, 1, 0, 0, 0, 0], bool))
    assert (here.ids, here.judged.tolist()) == (["f", "b", "a"], [False, False, True])
    assert other.judged.tolist() == [False, True, False]
    assert not many.is_reported


def test_every_tool_is_pinned_and_has_a_script():
    for tool in TOOLS:
        lines = tool.requirements.read_text().split()
        assert all("==" in line and "/" not in line for line in lines)
        assert any(line.startswith(f"{tool.name}==") for line in lines)
        compile(tool.script.read_text(), tool.script, "exec")


def test_a_missing_data_set_skips_with_a_message(tmp_path, capsys):
    main(tmp_path)
    assert capsys.readouterr().err.startswith("skipped: ")
