"""What is unsure is so everywhere, and what verdicts are to keep can be asked for."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lxml import etree

from data.comparisons.tables import ComparisonTables, version_ranges
from data.errors import InputError
from serving.cli import run_command
from serving.comparisons import render
from serving.comparisons.endpoints import answer_json, answer_many
from serving.comparisons.guarantees import decision_summary
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import with_card, with_policy
from serving.comparisons.xml.report import as_xml
from serving.reports.verdict_lines import as_junit, as_markdown
from tests.code.comparisons.inputs import comparison_row, rows
from training.estimators.answering import CalibrationMap
from training.evaluation.thresholds import (
    DecisionPolicy,
    DecisionThresholds,
    GuaranteedRate,
    RiskGuarantee,
    VerdictCosts,
)

PROMISE = RiskGuarantee(
    0.9,
    60,
    30,
    (GuaranteedRate(0.02, None), GuaranteedRate(0.05, 0.1, 0.02, 0.96)),
    (GuaranteedRate(0.01, 0.99999), GuaranteedRate(0.1, 0.2)),
)


@pytest.fixture
def promising(served):
    return with_card(served, replace(served.model.card, risk_guarantee=PROMISE))


def of(operation, after):
    before = np.array([98.0, 99.0, 100.0, 101.0, 102.0])
    results = rows(operation, before.tolist()) + rows(operation, (before * after / 100).tolist(), 1)
    return ComparisonTables.from_rows(results, [comparison_row(operation)], [])


#: A comparison that the model is not sure of: its median is a little worse.
TABLES = of("slow", 87.0)


def verdict(tables, served):
    return judge_tables(tables, served).verdicts[0]


def test_a_verdict_between_thresholds_is_unsure_in_every_form(promising):
    probability = verdict(TABLES, promising).probability
    assert 0.1 < probability < 0.99999
    judgement = judge_tables(TABLES, with_policy(promising, 0.05, 0.01, None))
    assert (judgement.count_verdicts("unsure"), judgement.verdicts[0].verdict) == (1, "unsure")
    told = json.loads(render.as_json(judgement))
    assert told["model"]["decided"]["max_false_negative_rate"] == 0.05
    said = [told["verdicts"][0][name] for name in ("verdict", "threshold", "unsure_from")]
    assert said == ["unsure", 0.99999, 0.1]
    lines = render.table_lines(judgement, version_ranges(TABLES))
    assert "0 fail, 1 unsure, 0 pass, 0 invalid" in lines.summary
    assert "at most 5 % of the regressions pass (90 % confidence)" in lines.summary
    assert "**unsure**" in as_markdown(lines)
    suite = etree.fromstring(as_junit(lines).encode())[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    message = suite.find("testcase")[0].get("message")
    assert message.startswith(f"unsure, regression with probability {probability:.3f}: ")
    assert b'result_status="unsure"' in as_xml(judgement, TABLES)


def test_small_changes_are_unsure_only_under_a_guarantee(promising):
    wanted = with_policy(promising, 0.02, None, None)
    thresholds = wanted.model.card.decision_thresholds
    same = verdict(of("same", 100.0), wanted)
    assert (same.verdict, same.decided_by, same.remarks) == ("unsure", "model", ())
    assert thresholds.low == 0 < same.probability < thresholds.high
    assert verdict(of("little", 99.0), wanted).verdict == "unsure"
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


def test_an_impossible_guarantee_states_the_required_fails(promising):
    told = decision_summary(with_policy(promising, 0.02, None, None).model.card)
    assert told == (
        "2 % cannot be promised with 60 of 30 operations, "
        "it takes at least 114 of as many operations: no verdict is pass"
    )


COSTS = {"false_negative": 100, "false_positive": 10, "review": 1}


def test_decision_options_apply_to_their_own_request_only(promising):
    configuration = {"threads": 1, "baseline": [98.0, 100.0, 102.0], "target": [90.0, 92.0, 94.0]}
    one = {"comparison_id": "a", "operation": "x", "better": "higher", "configurations": [configuration]}
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


def test_impossible_guarantees_and_costs_are_refused_from_python(served):
    for share, costs, problem in (
        (0.05, None, "max_false_negative_rate: the model was trained without risk guarantees"),
        (0.05, COSTS, "costs: decide in place of max_false_negative_rate and max_false_positive_rate"),
        (None, COSTS | {"false_negative": 0}, "costs: 0:10:1 are not finite numbers above 0"),
        (None, COSTS | {"false_positive": 0}, "costs: 100:0:1 are not finite numbers above 0"),
        (None, COSTS | {"review": np.nan}, "costs: 100:10:nan are not finite numbers above 0"),
    ):
        with pytest.raises(InputError, match=problem):
            with_policy(served, share, None, costs and VerdictCosts(**costs))


def test_calibration_changes_the_probability_but_not_the_reasons(served):
    halved = CalibrationMap("sigmoid", (0.0, 0.999999, 1.0), (0.0, 0.5, 1.0))
    raw = verdict(TABLES, served)
    told = verdict(TABLES, with_card(served, replace(served.model.card, calibration=halved)))
    assert told.probability == pytest.approx(halved.map_probability(raw.probability))
    assert told.probability < raw.probability
    assert told.reasons == raw.reasons


def test_contradictory_or_invalid_decision_options_are_refused(capsys):
    for option, told in (
        ("--max-false-negative-rate=0", "'0' is not a percentage"),
        ("--max-false-negative-rate=x", "'x' is not a percentage"),
        ("--base-rate=200", "'200' is not a percentage"),
        ("--costs=1:2", "three costs"),
    ):
        assert run_command(["judge", "nothing", option]) == 2
        assert told in capsys.readouterr().err
