"""Verdicts in every form: what fails, passes or is unsure, and what they are to keep."""

import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from sklearn.linear_model import LogisticRegression

from data.comparisons.params import Decide
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables, version_ranges
from data.errors import InputError
from features.comparisons.vectors import SEED_FEATURES
from serving.comparisons import render
from serving.comparisons.endpoints import answer_json, answer_many
from serving.comparisons.guarantees import decision_summary
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import with_card, with_policy
from serving.http.api import application
from serving.http.settings import ServerSettings
from serving.models import Served
from serving.reports.verdict_lines import VerdictLine, VerdictTable, as_junit, as_markdown, as_plain
from tests.code.comparisons.inputs import comparison_row, rows
from tests.code.comparisons.posted import comparison, standardised
from tests.data.refusals import refusal
from tests.families import feature_table, small_family
from training.comparisons.decision import (
    OUT_OF_FOLD_FILE,
    learn_decision,
    read_changes,
    read_out_of_fold,
    write_out_of_fold,
)
from training.comparisons.evaluate import out_of_fold
from training.comparisons.family import Examples, FeatureTable, all_parts
from training.comparisons.stored import TrainedModel
from training.comparisons.tune import Classified
from training.estimators.answering import CalibrationMap
from training.evaluation.search import SearchOutcome
from training.evaluation.thresholds import (
    DecisionPolicy,
    DecisionThresholds,
    GuaranteedRate,
    RiskGuarantee,
    VerdictCosts,
    below_min_effect,
)

SAMPLES = {"equal": ([99.0, 100.0, 101.0],) * 2, "zero": ([0.0] * 3, [1.0] * 3)}


@pytest.fixture
def tables():
    """An equal operation, one that cannot be judged, a slower one as summaries."""
    results = [row for name, sides in SAMPLES.items() for at in (0, 1) for row in rows(name, sides[at], at)]
    for order, middle in ((0, 100.0), (1, 80.0)):
        results += rows("slow", [middle + distance for distance in range(-2, 3)], order, FIVE_NUMBERS)
    return ComparisonTables.from_rows(results, [comparison_row(name) for name in (*SAMPLES, "slow")], [])


def rows_of(tables, served):
    return render.table_lines(judge_tables(tables, served), version_ranges(tables))


def suite_of(table):
    return etree.fromstring(as_junit(table).encode())[0]


def names_of(table):
    return [case.get("name") for case in suite_of(table).iter("testcase")]


def test_verdicts_keep_their_order_around_an_invalid_comparison(tables, served):
    equal, zero, slow = judge_tables(tables, served).verdicts
    assert [one.verdict for one in (equal, zero, slow)] == ["pass", "invalid", "fail"]
    assert (zero.probability, zero.reasons) == (None, ())
    assert "no value above 0" in zero.invalid_reason
    medians = [reason for reason in slow.reasons if reason.feature.startswith("medians")]
    assert [reason.value for reason in medians] == pytest.approx([-(0.2**0.5)] * len(medians))
    assert len(medians) == len(slow.reasons) == 3
    sizes = [abs(reason.contribution) for reason in slow.reasons]
    assert sizes == sorted(sizes, reverse=True)
    # a probability equal to the threshold fails
    exact = with_card(served, replace(served.model.card, threshold=slow.probability))
    assert judge_tables(tables, exact).verdicts[2].verdict == "fail"


def test_requests_without_valid_comparisons_give_a_judgement(tables, served):
    none, zero = (
        judge_tables(replace(tables, comparisons=tables.comparisons.iloc[chosen]), served)
        for chosen in (slice(0), slice(1, 2))
    )
    assert (len(none), json.loads(render.as_json(none))["verdicts"]) == (0, [])
    assert (zero.unit, zero.count_verdicts("invalid")) == ("log-odds", 1)


def test_tables_escape_names_count_and_sort_fail_invalid_pass(tables, served):
    table = rows_of(tables, served)
    lines = as_markdown(table).splitlines()
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["**fail**", "**invalid**", "pass"]
    assert "| b `& <c>` |" in lines[4]
    # distinct names need no column of versions
    assert lines[2].count("|") == 6
    assert "3 comparisons: 1 fail, 1 pass, 1 invalid" in as_plain(table)
    counts = {"tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    assert dict(suite_of(table).attrib) == {"name": "b & <c>", **counts}


def test_common_versions_do_not_qualify_operations_of_two_machines(served):
    results = [row | {"machine": m} for m in "pq" for order in (0, 1) for row in rows("x", [1.0, 2.0], order)]
    both = [comparison_row("x") | {"comparison_id": f"b/x/{machine}", "machine": machine} for machine in "pq"]
    told = rows_of(ComparisonTables.from_rows(results, both, []), served)
    assert names_of(told) == ["x [b/x/p]", "x [b/x/q]"]


def table_of(*lines):
    return VerdictTable([VerdictLine(*line) for line in lines], ("a", "b", "c"), "")


def test_test_cases_differing_in_control_characters_keep_unique_names():
    told = table_of(*(("pass", 0.1, "s", f"x{char}", "") for char in ("\x01", "\x02", "\ufffd #2")))
    assert len({*names_of(told)}) == 3


@pytest.mark.parametrize(
    ("verdict", "probability", "message"),
    [
        ("fail", 0.9, "regression with probability 0.900"),
        ("fail", None, "0 to 3"),
        ("unsure", 0.5, "unsure, regression with probability 0.500: 0 to 3"),
        ("unsure", None, "unsure: 0 to 3"),
    ],
)
def test_junit_gives_the_reason_where_there_is_no_probability(verdict, probability, message):
    (case,) = suite_of(table_of((verdict, probability, "s", "x", "0 to 3"))).iter("testcase")
    assert case[0].get("message") == message


def test_version_ranges_use_orders_for_unnamed_versions():
    names = ["v0", "v1", "v2", None]
    given = [row | {"version": names[at]} for at in range(4) for row in rows("x", [1.0], at)]
    span = comparison_row("x") | {"baseline_to": 2, "target_from": 3, "target_to": 3}
    assert version_ranges(ComparisonTables.from_rows(given, [span], [])) == ["v0..v2 -> 3"]


@pytest.fixture
def promising(served):
    passing = GuaranteedRate(0.02, None), GuaranteedRate(0.05, 0.1, 0.02, 0.96)
    failing = GuaranteedRate(0.01, 0.99999), GuaranteedRate(0.1, 0.2)
    promise = RiskGuarantee(0.9, 60, 30, passing, failing)
    return with_card(served, replace(served.model.card, risk_guarantee=promise))


def of(operation, after):
    before = np.array([98.0, 99.0, 100.0, 101.0, 102.0])
    results = rows(operation, before.tolist()) + rows(operation, (before * after / 100).tolist(), 1)
    return ComparisonTables.from_rows(results, [comparison_row(operation)], [])


#: A comparison that the model is not sure of: its median is a little worse.
TABLES = of("slow", 87.0)


def verdict(tables, served, **further):
    return judge_tables(tables, served, **further).verdicts[0]


def test_a_verdict_between_guaranteed_thresholds_is_unsure(promising):
    judgement = judge_tables(TABLES, with_policy(promising, 0.05, 0.01, None))
    told = json.loads(render.as_json(judgement))
    assert told["model"]["decided"]["max_false_negative_rate"] == 0.05
    said = [told["verdicts"][0][name] for name in ("verdict", "threshold", "unsure_from")]
    assert said == ["unsure", 0.99999, 0.1]
    lines = render.table_lines(judgement, version_ranges(TABLES))
    assert "0 fail, 1 unsure, 0 pass, 0 invalid" in lines.summary
    assert "at most 5 % of the regressions pass (90 % confidence)" in lines.summary


def test_small_changes_are_unsure_only_under_a_guarantee(promising):
    wanted = with_policy(promising, 0.02, None, None)
    thresholds = wanted.model.card.decision_thresholds
    same = verdict(of("same", 100.0), wanted)
    assert (same.verdict, same.decided_by, same.remarks) == ("unsure", "model", ())
    assert thresholds.low == 0 < same.probability < thresholds.high
    assert verdict(of("little", 99.0), wanted).verdict == "unsure"
    # so many fails make the guarantee possible
    assert decision_summary(wanted.model.card) == (
        "2 % cannot be promised with 60 of 30 operations, "
        "it takes at least 114 of as many operations: no verdict is pass"
    )
    careless = with_policy(promising, None, 0.1, None)
    assert verdict(of("same", 100.0), careless).verdict == "pass"
    assert not careless.model.card.policy.allows_unsure_below


def test_no_change_below_minimum_effect_size_fails(promising):
    policy, cuts = DecisionPolicy(max_false_negative_rate=0.05), DecisionThresholds(0.1, 0.2)
    card = replace(promising.model.card, min_effect_size=0.5, cuts=cuts, policy=policy)
    eager = with_card(promising, card)
    worse, passed = (verdict(of("x", after), eager) for after in (80.0, 110.0))
    assert worse.probability > 0.2
    assert worse.verdict == "unsure"
    assert (passed.verdict, passed.decided_by, passed.probability) == ("pass", "min_effect_size", 0.0)


COSTS = {"false_negative": 100, "false_positive": 10, "review": 1}


def test_decision_options_apply_to_their_own_request_only(promising):
    one = comparison([98, 100, 102], [90, 92, 94], better="higher")
    rate = {"max_false_negative_rate": 0.05}
    options = ({}, rate, {"costs": COSTS}, {"max_false_negative_rate": 0.03}, rate | {"costs": COSTS})
    bodies = [json.dumps({"comparisons": [one], **more}).encode() for more in options]
    *answers, not_guaranteed, both = answer_many(bodies, promising)
    for body, found in zip(bodies, answers, strict=False):
        assert found.content == answer_json(body, promising).content
    decided = [json.loads(found.content)["model"]["decided"] for found in answers]
    assert [told["max_false_negative_rate"] for told in decided] == [None, 0.05, None]
    assert decided[2]["summary"] == "cheapest where a miss costs 100, a false alarm 10 and a review 1"
    assert json.loads(answers[2].content)["verdicts"][0]["unsure_from"] == 0.01
    assert "expected a rate that the model guarantees: 2, 5 %" in str(not_guaranteed)
    assert "expected one or the other" in str(both)


@pytest.mark.parametrize(
    ("share", "costs", "problem"),
    [
        (0.05, {}, "max_false_negative_rate: the model was trained without risk guarantees"),
        (0.05, COSTS, "costs: decide in place of max_false_negative_rate and max_false_positive_rate"),
        (None, COSTS | {"false_positive": 0}, "costs: 100:0:1 are not finite numbers above 0"),
        (None, COSTS | {"review": np.nan}, "costs: 100:10:nan are not finite numbers above 0"),
    ],
)
def test_impossible_guarantees_and_costs_are_refused_from_python(served, share, costs, problem):
    with pytest.raises(InputError, match=problem):
        with_policy(served, share, None, VerdictCosts(**costs) if costs else None)


def test_calibration_changes_the_probability_but_not_the_reasons(served):
    halved = CalibrationMap("sigmoid", (0.0, 0.999999, 1.0), (0.0, 0.5, 1.0))
    raw = verdict(TABLES, served)
    told = verdict(TABLES, with_card(served, replace(served.model.card, calibration=halved)))
    assert told.probability == pytest.approx(halved.map_probability(raw.probability))
    assert told.probability < raw.probability
    assert told.reasons == raw.reasons


def judged(served, *configurations, floor=None):
    """Return the verdict on one comparison of ``(threads, baseline, target)``."""
    given = []
    for threads, *sides in configurations:
        given += [row for at in (0, 1) for row in rows("x", sides[at], at, threads=threads)]
    if floor is not None:
        served = with_card(served, replace(served.model.card, min_effect_size=floor))
    return verdict(ComparisonTables.from_rows(given, [comparison_row("x")], []), served, assumed=0.0)


@pytest.fixture
def eager(served):
    always = SimpleNamespace(unit="probability", predict_probability=lambda columns: np.ones(len(columns)))
    return Served(replace(served.model, answering=always), served.ref)


@pytest.mark.parametrize(
    ("targets", "floor", "expected"),
    [
        ([99.999999], None, ("pass", 0.0, "min_effect_size")),
        ([99.999999], 0.0, ("fail", 1.0, "model")),
        ([99.5], None, ("fail", 1.0, "model")),
        # one configuration is enough
        ([120.0, 99.0], None, ("fail", 1.0, "model")),
    ],
)
def test_the_model_decides_on_changes_from_the_minimum_effect_size_on(eager, targets, floor, expected):
    configurations = [(at, [100.0] * 3, [target] * 3) for at, target in enumerate(targets, 1)]
    found = judged(eager, *configurations, floor=floor)
    assert (found.verdict, found.probability, found.decided_by, found.remarks) == (*expected, ())


def test_minimum_effect_size_is_inclusive_despite_rounding_of_numbers():
    changes = np.array([(30.0 - 30.15) / 30.0, -0.0049, 0.1])
    assert below_min_effect(changes, 0.005).tolist() == [False, True, True]


def outcome(part, probability):
    return SearchOutcome(part, "logistic", Classified({}, 1.0, 0.5), [], probability)


def held_out(family):
    """Return verdicts of models with as many fails as they say: there is nothing to calibrate."""
    table = FeatureTable.read(family.features_file, family.columns)
    chosen = Classified({"c": 1.0, "sampler": "none", "weights": "equal"}, 1.0, 0.5)
    folds = all_parts(table.examples, family.section.evaluate, family.params.seed)
    said = [outcome(part.name, np.full(len(part.train), 0.25)) for part in folds]
    write_out_of_fold(family.paths.tuned, said)
    names = ["grouped/f0", "grouped/f1", "stratified/r0f0", "stratified/r0f1"]
    verdicts, _ = out_of_fold(family, table, {name: {"logistic": chosen} for name in names})
    return verdicts[verdicts["kind"] == "model"].reset_index(drop=True)


def test_out_of_fold_verdicts_respect_minimum_effect_size(tmp_path):
    table = feature_table()
    family = small_family(tmp_path, table=table, models=("logistic",))
    usual = held_out(family)
    change = np.where(np.arange(len(table)) < 40, -0.1, -0.004)
    table[["comparison_id"]].assign(worst_change=change).to_parquet(family.stage_file("changes"), index=False)
    moved = held_out(family)
    low = moved["comparison_id"].isin(table["comparison_id"][40:])
    assert (moved.loc[low, "probability"] == 0).all()
    assert (moved.loc[low, "verdict"] == "pass").all()
    assert (usual.loc[low, "verdict"] == "fail").any()
    # and nothing is learned from it
    table.loc[40:, ["medians_min", "medians_med"]] *= -3
    table.to_parquet(family.features_file, index=False)
    pd.testing.assert_frame_equal(moved[~low], held_out(family)[~low])
    assert not usual.loc[~low, "probability"].equals(moved.loc[~low, "probability"])


def test_changes_of_other_comparisons_are_refused(tmp_path):
    family = small_family(tmp_path)
    table = FeatureTable.read(family.features_file, family.columns)
    path = family.stage_file("changes")
    pd.read_parquet(path).iloc[1:].to_parquet(path)
    told = refusal(read_changes, path, table)
    assert told.startswith(f"{path}: holds other comparisons than the features")


def test_a_single_outlier_is_ignored_with_a_remark(served):
    usual = [99.0, 99.5, 100.0, 100.5, 101.0, 99.2, 99.8, 100.3, 100.7, 100.1]
    wild = judged(served, (8, usual, [*usual[:9], 10.03]), floor=0.0)
    without = judged(served, (8, usual, usual[:9]), floor=0.0)
    assert (wild.verdict, wild.probability) == ("pass", without.probability)
    remark = "one sample of 10 is left out: 10.03 against a median of 100 (target, 8 threads)"
    assert wild.remarks == (remark,)


def test_all_server_processes_use_the_configured_minimum_effect_size(served, tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(20, len(SEED_FEATURES)))
    fitted = standardised(LogisticRegression()).fit(x, np.arange(20) % 2)
    TrainedModel(fitted, served.model.card).write(tmp_path)
    own = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    monkeypatch.setattr("os.environ", own)
    for options, used in (({}, 0.005), ({"min_effect_size": 0.2}, 0.2)):
        ServerSettings({"model": str(tmp_path), **options}).export_to_environment()
        assert application().state.models["model"].ensure_loaded().card.min_effect_size == used


def damaged(content, place, mask):
    place = int(place * len(content))
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


BYTES = {"place": st.floats(0, 1, exclude_max=True), "mask": st.integers(1, 255)}


@given(**BYTES)
@settings(max_examples=50)
def test_damaged_probabilities_are_refused_by_name_or_unchanged(tmp_path_factory, place, mask):
    directory, probabilities = tmp_path_factory.mktemp("tuned"), np.random.default_rng(1).random(30)
    write_out_of_fold(directory, [outcome("all", probabilities)])
    path, asked = directory / OUT_OF_FOLD_FILE, [("all", "logistic")]
    whole = path.read_bytes()
    path.write_bytes(damaged(whole, place, mask))
    told, problem = r"held.npz: .*run tune (again|first)$", ""
    try:
        np.testing.assert_array_equal(read_out_of_fold(directory, asked), [probabilities])
    except InputError as error:
        problem = str(error)
    assert not problem or re.search(told, problem)
    path.write_bytes(whole[: int(place * len(whole))])
    assert re.search(told, refusal(read_out_of_fold, directory, asked))
    path.unlink()
    path.mkdir()
    assert "is damaged or unreadable; run tune again" in refusal(read_out_of_fold, directory, asked)


@given(**BYTES)
@settings(max_examples=50)
def test_a_damaged_feature_table_is_refused_by_name(tmp_path_factory, place, mask):
    path = tmp_path_factory.mktemp("processed") / "features.parquet"
    feature_table().to_parquet(path, index=False)
    path.write_bytes(damaged(path.read_bytes(), place, mask))
    with suppress(InputError):
        assert FeatureTable.read(path, ("noise",)).examples.x.shape[1] == 1
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"features.parquet: .*run featurize again$"):
        FeatureTable.read(path, ("noise",))


def test_a_decision_is_learned_if_all_effects_are_small():
    y, probability = np.arange(60) % 2, np.linspace(0, 1, 60)
    groups = np.array([f"g{number}" for number in range(60)])
    examples = Examples(np.zeros((60, 1)), y, groups, below=np.full(60, True))
    decision = learn_decision(examples, probability, 0.5, Decide(), 1)
    assert 0 <= decision.calibration.map_probability(0.2) <= decision.calibration.map_probability(0.9) <= 1
