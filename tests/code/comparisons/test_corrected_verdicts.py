"""Verdicts are corrected for the share of regressions where the model is used."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data.errors import InputError
from data.tables.files import write_json
from serving.cli import run_command
from serving.comparisons.endpoints import answer_json, answer_many
from serving.comparisons.guarantees import GuaranteeAnswer, base_rate_notes, guarantee_answer
from serving.comparisons.judge import judge_sides
from serving.comparisons.model import load_judge, with_card, with_policy
from serving.comparisons.schemas import JudgeAnswer
from serving.http.schemas import RefusedError
from tests.code.comparisons.posted import drawn, posted
from training.comparisons.base_rate import BaseRate
from training.comparisons.stored import Card
from training.estimators.answering import CalibrationMap
from training.evaluation.thresholds import DecisionPolicy, GuaranteedRate, RiskGuarantee, VerdictCosts

LEVELS = (GuaranteedRate(0.05, 0.2),), (GuaranteedRate(0.01, 0.9),)
COSTS = {"false_negative": 10, "false_positive": 1, "review": 0.2}


@pytest.fixture
def rated(model_directory):
    served = load_judge(str(model_directory))
    return with_card(served, replace(served.model.card, risk_guarantee=RiskGuarantee(0.9, 100, 100, *LEVELS)))


def stream(rows, every, seed=11):
    """Draw comparisons of which one in `every` is a regression."""
    both = list(drawn(3 * rows, seed=seed))
    slow, others = both[::3], [one for row, one in enumerate(both) if row % 3]
    return [slow[row] if row % every == 0 else others[row] for row in range(rows)]


def body(comparisons, **keys):
    return json.dumps({"comparisons": comparisons, **keys}).encode()


def test_an_estimate_corrects_probabilities_and_is_in_the_answer(rated):
    bodies = body(stream(400, 40)), body(stream(400, 40), base_rate="estimate")
    plain, told = (json.loads(answer_json(one, rated).content) for one in bodies)
    rate = JudgeAnswer(**told).base_rate
    assert "base_rate" not in plain
    assert rate.low <= 1 / 40 <= rate.high
    assert rate.rate < 0.08
    before, after = (np.array([one["probability"] for one in got["verdicts"]]) for got in (plain, told))
    assert (after <= before).all()
    assert after.sum() < before.sum()
    assert (np.argsort(after, kind="stable") == np.argsort(before, kind="stable")).all()
    assert "95 % interval" in told["notes"][0]
    assert told["model"]["decided"]["summary"].endswith("corrected for the base rate")


def test_impossible_base_rates_of_requests_are_refused_by_name(rated):
    with pytest.raises(RefusedError, match="base_rate: an estimate needs at least 100") as refused:
        answer_json(body(stream(20, 4), base_rate="estimate"), rated)
    assert refused.value.status_code == 409
    for rate in (0, 1, -0.1, "guess", True):
        with pytest.raises(InputError, match="base_rate"):
            answer_json(body(stream(3, 3), base_rate=rate), rated)
    older = with_card(rated, replace(rated.model.card, training_scores=None))
    with pytest.raises(InputError, match="base_rate: the model was trained without the scores"):
        judge_sides(posted(*stream(3, 3)), older, base_rate=0.02)


def test_a_base_rate_applies_to_its_own_request_only(rated):
    comparisons = stream(120, 12)
    bodies = [body(comparisons), body(comparisons, base_rate=0.02), body(comparisons, base_rate="estimate")]
    for request, found in zip(bodies, answer_many(bodies, rated), strict=True):
        assert found.content == answer_json(request, rated).content


@pytest.mark.parametrize(
    "policy", [DecisionPolicy(), DecisionPolicy(0.05), DecisionPolicy(None, 0.01), DecisionPolicy(0.05, 0.01)]
)
@pytest.mark.parametrize("rate", [0.01, 0.7])
def test_limits_on_error_rates_give_equal_verdicts_at_every_base_rate(rated, policy, rate):
    named = posted(*stream(200, 5))
    served = with_card(rated, rated.model.card.with_policy(policy))
    corrected = with_card(served, served.model.card.at_base_rate(rate))
    plain, moved = (judge_sides(named, one, assumed=0) for one in (served, corrected))
    assert plain.answers.tolist() == moved.answers.tolist()
    assert not np.allclose(plain.probability, moved.probability)
    back = with_card(served, moved.card.at_training_rate())
    np.testing.assert_allclose(judge_sides(named, back, assumed=0).probability, plain.probability, rtol=1e-9)


def test_costs_and_limits_on_reviews_apply_to_corrected_probabilities(rated):
    served, named = with_policy(rated, None, None, VerdictCosts(**COSTS)), posted(*stream(200, 5))
    plain, moved = (judge_sides(named, served, assumed=0, base_rate=rate) for rate in (None, 0.01))
    cuts = moved.card.decision_thresholds
    assert cuts == plain.card.decision_thresholds
    assert (cuts.low, cuts.high) == (0.02, 0.8)
    assert moved.count_verdicts("fail") < plain.count_verdicts("fail")
    limited = with_card(rated, replace(rated.model.card, policy=DecisionPolicy(max_review_rate=0.05)))
    judgement = judge_sides(posted(*stream(400, 40)), limited, assumed=0, base_rate="estimate")
    assert judgement.count_verdicts("unsure") <= 0.05 * 400


def test_another_minimum_effect_size_does_not_change_the_estimate(rated):
    named, careless = posted(*stream(300, 10)), replace(rated.model.card, min_effect_size=0.05)
    models = (rated, with_card(rated, careless))
    first, second = (judge_sides(named, one, base_rate="estimate").base_rate for one in models)
    assert first == second


def test_a_card_stores_scores_base_rate_calibration_and_guarantee(rated, tmp_path):
    passing = (GuaranteedRate(0.02, None), GuaranteedRate(0.05, 0.1, 0.02, 0.96))
    card = replace(
        rated.model.card.with_policy(DecisionPolicy(0.05, 0.01)).at_base_rate(0.02),
        risk_guarantee=RiskGuarantee(0.9, 60, 30, passing, LEVELS[1]),
        calibration=CalibrationMap("beta", (0.0, 0.5, 1.0), (0.0, 0.2, 1.0)),
    )
    write_json(tmp_path / "card.json", asdict(card))
    assert Card.read(tmp_path) == card
    assert card.odds_factor != 1
    told = GuaranteeAnswer(**guarantee_answer(card.risk_guarantee))
    assert told.max_false_negative_rate[1].measured == 0.02


@given(st.floats(1e-9, 1 - 1e-12))
@example(0.9999)
@example(0.999999999999)
def test_a_corrected_rate_is_told_apart_from_all_and_none(rate):
    (told,) = base_rate_notes(BaseRate(rate))
    percentage = float(told.removeprefix("probabilities and thresholds are corrected for ").split(" %")[0])
    assert "e+" not in told
    assert 0 < percentage < 100
    assert percentage == pytest.approx(100 * rate, rel=0.051)
    assert 100 - percentage == pytest.approx(100 - 100 * rate, rel=0.51)


@pytest.fixture
def judged(model_directory, tmp_path, capsys):
    def run(comparisons, *options, status=0, **settings):
        (tmp_path / "r.json").write_bytes(body(comparisons, **settings))
        command = ["judge", str(tmp_path / "r.json"), "--model", str(model_directory), *options]
        assert run_command(command) == status
        out, error = capsys.readouterr()
        assert (bool(out), error.count("\n")) == ((False, 1) if status else (True, 0))
        return error if status else json.loads(out) if "--json" in options else out

    return run


def test_the_command_judges_at_an_estimated_or_given_rate(judged):
    comparisons = stream(200, 20)
    assert 0 < judged(comparisons, "--json", "--base-rate", "estimate")["base_rate"]["rate"] < 0.2
    told = judged(comparisons, "--base-rate", "2")
    assert "probabilities and thresholds are corrected for 2 % regressions" in told
    plain = judged(comparisons, "--json")
    assert judged(comparisons, "--json", "--base-rate", "none") == plain
    assert "base_rate" not in plain
    error = judged(stream(10, 3), "--base-rate", "estimate", status=2)
    assert "an estimate needs at least 100 comparisons" in error
    for option, told in (("max-false-negative-rate", "0"), ("base-rate", "200")):
        assert f"'{told}' is not a percentage" in judged([], f"--{option}={told}", status=2)


@pytest.mark.parametrize("labels", [[], [{"status": "pass"}]])
def test_the_command_notes_settings_of_a_request_only(judged, tmp_path, labels):
    comparisons = [{**comparison, "labels": labels} for comparison in stream(10, 3)]
    note = f"{tmp_path / 'r.json'}: base_rate apply over HTTP only; `perfjudge judge` has --base-rate"
    noted = judged(comparisons, "--json", base_rate=0.01)
    assert noted == judged(comparisons, "--json") | {"notes": [note]}


def test_a_server_option_corrects_every_request(model_directory, capsys):
    named, loaded = posted(*stream(60, 10)), load_judge(str(model_directory), base_rate=0.02)
    given = judge_sides(named, load_judge(str(model_directory)), base_rate=0.02)
    assert judge_sides(named, loaded).probability.tolist() == given.probability.tolist()
    assert run_command(["serve", "--model", str(model_directory), "--base-rate", "estimate"]) == 2
    assert "'estimate' is not a percentage between 0 and 100 and not none" in capsys.readouterr().err
    assert run_command(["serve", "--help"]) == 0
    assert "estimate" not in capsys.readouterr().out


def test_training_stores_out_of_fold_scores_of_all_labelled_comparisons(champion):
    scores, card = champion.card.require_scores(), champion.card
    probability, failed, _ = scores.rows
    assert (failed.sum(), scores.min_effect_size) == (card.risk_guarantee.fails, card.min_effect_size)
    assert (probability[failed == 0] == 0).any()
    assert (probability[failed == 0] >= card.threshold).mean() < 0.1
    assert (probability[failed == 1] >= card.threshold).mean() > 0.9
