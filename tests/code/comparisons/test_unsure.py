"""What is unsure is so everywhere, and what verdicts are to keep can be asked for."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from lxml import etree
from typer.testing import CliRunner

from data.comparisons.tables import ComparisonTables, version_ranges
from data.errors import InputError
from data.tables.files import write_json
from serving.comparisons import render
from serving.comparisons.endpoints import answer_json, answer_many
from serving.comparisons.guarantees import GuaranteeAnswer, decision_summary, guarantee_answer
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import with_policy
from serving.comparisons.xml.report import as_xml
from serving.models import Served
from serving.reports.verdict_lines import as_junit, as_markdown
from tests.code.comparisons.inputs import comparison_row, rows
from training.comparisons.stored import Card
from training.estimators.answering import CalibrationMap
from training.evaluation.thresholds import DecisionPolicy, DecisionThresholds, GuaranteedRate, RiskGuarantee

PROMISE = RiskGuarantee(
    0.9,
    60,
    30,
    (GuaranteedRate(0.02, None), GuaranteedRate(0.05, 0.1, 0.02, 0.96)),
    (GuaranteedRate(0.01, 0.99999), GuaranteedRate(0.1, 0.2)),
)


@pytest.fixture
def promising(served):
    return with_card(served, risk_guarantee=PROMISE)


def with_card(served, **fields):
    return Served(replace(served.model, card=replace(served.model.card, **fields)), served.ref)


@pytest.fixture
def tables():
    """A comparison that the model is not sure of: its median is a little worse."""
    return of("slow", 87.0)


def of(operation, after):
    results = rows(operation, [98.0, 99.0, 100.0, 101.0, 102.0])
    results += rows(operation, (np.array([98.0, 99.0, 100.0, 101.0, 102.0]) * after / 100).tolist(), 1)
    return ComparisonTables.from_rows(results, [comparison_row(operation)], [])


def verdict(tables, served):
    return judge_tables(tables, served).verdicts[0]


def test_a_verdict_between_thresholds_is_unsure_in_every_form(tables, promising):
    probability = verdict(tables, promising).probability
    assert 0.1 < probability < 0.99999
    unsure = with_policy(promising, 0.05, 0.01, None)
    judgement = judge_tables(tables, unsure)
    assert (judgement.count_verdicts("unsure"), judgement.verdicts[0].verdict) == (1, "unsure")
    told = json.loads(render.as_json(judgement))
    assert told["model"]["decided"]["max_false_negative_rate"] == 0.05
    assert [told["verdicts"][0][name] for name in ("verdict", "threshold", "unsure_from")] == [
        "unsure", 0.99999, 0.1,
    ]  # fmt: skip
    lines = render.table_lines(judgement, version_ranges(tables))
    assert "0 fail, 1 unsure, 0 pass, 0 invalid" in lines.summary
    assert "at most 5 % of the regressions pass (90 % confidence)" in lines.summary
    assert "**unsure**" in as_markdown(lines)
    suite = etree.fromstring(as_junit(lines).encode())[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert (
        suite.find("testcase")[0]
        .get("message")
        .startswith(f"unsure, regression with probability {probability:.3f}: ")
    )
    assert b'result_status="unsure"' in as_xml(judgement, tables)


def test_small_changes_are_unsure_only_under_a_guarantee(promising):
    wanted = with_policy(promising, 0.02, None, None)
    assert wanted.model.card.decision_thresholds.low == 0
    same = verdict(of("same", 100.0), wanted)
    assert (same.verdict, same.decided_by, same.remarks) == ("unsure", "model", ())
    assert 0 < same.probability < wanted.model.card.decision_thresholds.high
    assert verdict(of("little", 99.0), wanted).verdict == "unsure"
    careless = with_policy(promising, None, 0.1, None)
    assert (verdict(of("same", 100.0), careless).verdict, careless.model.card.policy.allows_unsure_below) == (
        "pass",
        False,
    )


def test_no_change_below_minimum_effect_size_fails(promising):
    eager = with_card(
        promising,
        min_effect_size=0.5,
        cuts=DecisionThresholds(0.1, 0.2),
        policy=DecisionPolicy(max_false_negative_rate=0.05),
    )
    worse = verdict(of("slow", 80.0), eager)
    assert worse.probability > 0.2
    assert worse.verdict == "unsure"
    passed = verdict(of("better", 110.0), eager)
    assert (passed.verdict, passed.decided_by, passed.probability) == ("pass", "min_effect_size", 0.0)


def test_an_impossible_guarantee_states_the_required_fails(promising):
    told = decision_summary(with_policy(promising, 0.02, None, None).model.card)
    assert told == (
        "2 % cannot be promised with 60 of 30 operations, "
        "it takes at least 114 of as many operations: no verdict is pass"
    )


def test_decision_options_apply_to_their_own_request_only(promising):
    one = {
        "comparison_id": "a", "operation": "x", "better": "higher",
        "configurations": [{"threads": 1, "baseline": [98.0, 100.0, 102.0], "target": [90.0, 92.0, 94.0]}],
    }  # fmt: skip
    plain, wanting, costly, wrong, both = (
        json.dumps({"comparisons": [one], **more}).encode()
        for more in (
            {},
            {"max_false_negative_rate": 0.05},
            {"costs": {"false_negative": 100, "false_positive": 10, "review": 1}},
            {"max_false_negative_rate": 0.03},
            {
                "max_false_negative_rate": 0.05,
                "costs": {"false_negative": 100, "false_positive": 10, "review": 1},
            },
        )
    )
    first, second, third, *refused = answer_many([plain, wanting, costly, wrong, both], promising)
    for body, found in ((plain, first), (wanting, second), (costly, third)):
        assert found.content == answer_json(body, promising).content
    decided = [json.loads(found.content)["model"]["decided"] for found in (first, second, third)]
    assert [told["max_false_negative_rate"] for told in decided] == [None, 0.05, None]
    assert decided[2]["summary"] == "cheapest where a miss costs 100, a false alarm 10 and a review 1"
    assert json.loads(third.content)["verdicts"][0]["unsure_from"] == 0.01
    assert "expected a rate that the model guarantees: 2, 5 %" in str(refused[0])
    assert "expected one or the other" in str(refused[1])


def test_an_older_model_refuses_requests_for_risk_guarantees(served):
    with pytest.raises(
        InputError, match="max_false_negative_rate: the model was trained without risk guarantees"
    ):
        with_policy(served, 0.05, None, None)


@pytest.mark.parametrize(
    ("share", "costs", "problem"),
    [
        (0.05, (100, 10, 1), "costs: decide in place of max_false_negative_rate and max_false_positive_rate"),
        (None, (0, 10, 1), "costs: 0:10:1 are not finite numbers above 0"),
        (None, (100, 0, 1), "costs: 100:0:1 are not finite numbers above 0"),
        (None, (100, 10, float("nan")), "costs: 100:10:nan are not finite numbers above 0"),
    ],
)
def test_impossible_costs_of_verdicts_are_refused_from_python(served, share, costs, problem):
    names = ("false_negative", "false_positive", "review")
    with pytest.raises(InputError, match=problem):
        with_policy(served, share, None, dict(zip(names, costs, strict=True)))


def test_calibration_changes_the_probability_but_not_the_reasons(tables, served):
    halved = CalibrationMap("sigmoid", (0.0, 0.999999, 1.0), (0.0, 0.5, 1.0))
    raw, told = verdict(tables, served), verdict(tables, with_card(served, calibration=halved))
    assert told.probability == pytest.approx(halved.map_probability(raw.probability))
    assert told.probability < raw.probability
    assert told.reasons == raw.reasons


def test_a_card_stores_calibration_guarantee_and_thresholds(promising, tmp_path):
    card = with_policy(promising, 0.05, 0.01, None).model.card
    card = replace(card, calibration=CalibrationMap("beta", (0.0, 0.5, 1.0), (0.0, 0.2, 1.0)))
    write_json(tmp_path / "card.json", asdict(card))
    assert Card.read(tmp_path) == card
    assert (
        GuaranteeAnswer(**guarantee_answer(card.risk_guarantee)).max_false_negative_rate[1].measured == 0.02
    )


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--max-false-negative-rate=0", "'0' is not a percentage"),
        ("--max-false-negative-rate=x", "'x' is not a percentage"),
        ("--costs=1:2", "three costs"),
    ],
)
def test_contradictory_or_invalid_decision_options_are_refused(option, told):
    from serving.cli import app

    result = CliRunner().invoke(app, ["judge", "nothing", option], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert told in result.output
