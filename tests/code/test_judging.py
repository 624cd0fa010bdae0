import json

import numpy as np
import pytest
from lxml import etree
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from data.errors import InputError
from data.pair import paired
from data.tables import ComparisonTables
from features.comparisons import SEED_FEATURES
from serving import render
from serving.figure import as_xml
from serving.judge import judge
from serving.model import ModelRef, Served
from serving.verdict_lines import as_junit, as_markdown, as_plain
from training.ready import ReadyModel
from training.trained import Card, TrainedModel

FIVE = ("min", "q1", "median", "q3", "max")


def rows(operation, values, order=0, stat=None, threads=1):
    return [
        {
            "series_id": operation, "group": "g", "benchmark": "b & <c>", "operation": operation,
            "machine": "m", "unit": "1/s", "better": "higher", "threads": threads, "version": str(order),
            "order": order, "value": value, "stat": given,
        }
        for value, given in zip(values, stat or [None] * len(values), strict=True)
    ]  # fmt: skip


def asked(operation):
    orders = {"baseline_from": 0, "baseline_to": 0, "target_from": 1, "target_to": 1}
    named = {
        "comparison_id": f"id-{operation}",
        "benchmark": "b & <c>",
        "operation": operation,
        "machine": "m",
    }
    return named | orders


@pytest.fixture
def tables():
    """An equal operation, one that cannot be judged, a slower one as summaries."""
    results = rows("equal", [99.0, 100.0, 101.0]) + rows("equal", [99.0, 100.0, 101.0], 1)
    results += rows("zero", [0.0, 0.0, 0.0]) + rows("zero", [1.0, 1.0, 1.0], 1)
    results += rows("slow", [98.0, 99.0, 100.0, 101.0, 102.0], 0, FIVE)
    results += rows("slow", [78.0, 79.0, 80.0, 81.0, 82.0], 1, FIVE)
    return ComparisonTables.of_rows(results, [asked("equal"), asked("zero"), asked("slow")], [])


@pytest.fixture(scope="module")
def served():
    rng = np.random.default_rng(0)
    columns = rng.normal(0, 0.05, (200, len(SEED_FEATURES)))
    columns[:50, :3] -= 0.4
    steps = [("impute", SimpleImputer()), ("scale", StandardScaler()), ("classify", LogisticRegression())]
    pipeline = Pipeline(steps)
    pipeline.fit(columns, np.arange(200) < 50)
    card = Card("logistic", SEED_FEATURES, 0.5, {}, dict.fromkeys(SEED_FEATURES, 0.0), "0" * 64, 0)
    return Served(ReadyModel.of(TrainedModel(pipeline, card)), ModelRef("m", "7", "models:/m/7"))


def test_verdicts_keep_the_order_and_what_cannot_be_judged_takes_nobodys_reasons(tables, served):
    equal, zero, slow = judge(tables, served).verdicts
    assert [v.verdict for v in (equal, zero, slow)] == ["pass", "invalid", "fail"]
    assert (zero.probability, zero.reasons) == (None, ())
    assert "median" in zero.invalid_reason
    medians = [reason for reason in slow.reasons if reason.feature.startswith("medians")]
    assert [reason.value for reason in medians] == pytest.approx([-(0.2**0.5)] * len(medians))
    assert len(medians) == len(slow.reasons) == 3


def test_as_many_reasons_as_are_asked_for_the_strongest_first(tables, served):
    reasons = judge(tables, served, reasons=5).verdicts[2].reasons
    sizes = [abs(reason.contribution) for reason in reasons]
    assert len(reasons) == 5
    assert sizes == sorted(sizes, reverse=True)


def test_the_threshold_itself_is_a_fail(tables, served):
    probability = judge(tables, served).verdicts[0].probability
    card = served.model.card
    moved = Card(card.model, card.features, probability, {}, card.reference, card.data_digest, 0)
    model = ReadyModel(served.model.answering, moved)
    assert judge(tables, Served(model, served.ref)).verdicts[0].verdict == "fail"


def test_the_verdict_on_one_does_not_depend_on_the_others(tables, served):
    alone = ComparisonTables(
        tables.results, tables.comparisons.iloc[[2]].reset_index(drop=True), tables.labels
    )
    together = judge(tables, served).verdicts[2]
    assert judge(alone, served).verdicts[0].probability == pytest.approx(together.probability)


def test_nothing_to_judge_is_a_judgement_too(tables, served):
    none = judge(ComparisonTables(tables.results, tables.comparisons.iloc[:0], tables.labels), served)
    assert (len(none), json.loads(render.as_json(none))["verdicts"]) == (0, [])


def test_only_what_cannot_be_judged_is_a_judgement_too(tables, served):
    zero = ComparisonTables(
        tables.results, tables.comparisons.iloc[[1]].reset_index(drop=True), tables.labels
    )
    judged = judge(zero, served)
    assert (judged.unit, judged.count("invalid")) == ("log-odds", 1)


def test_json_says_null_where_there_is_no_probability(tables, served):
    answer = json.loads(render.as_json(judge(tables, served)))
    assert answer["model"] == {
        "name": "m",
        "version": "7",
        "uri": "models:/m/7",
        "contribution_unit": "log-odds",
    }
    assert [v["probability"] is None for v in answer["verdicts"]] == [False, True, False]
    assert answer["verdicts"][2]["invalid_reason"] is None


def test_markdown_escapes_names_and_puts_fail_before_invalid_before_pass(tables, served):
    lines = as_markdown(render.lines(judge(tables, served))).splitlines()
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["**fail**", "**invalid**", "pass"]
    assert "b & &lt;c>" in lines[4]


def test_junit_counts_and_explains(tables, served):
    root = etree.fromstring(as_junit(render.lines(judge(tables, served))).encode())
    assert dict(root[0].attrib) == {
        "name": "b & <c>",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    assert [[child.tag for child in case] for case in root[0]] == [["system-out"], ["skipped"], ["failure"]]
    assert root[0][0][0].text == "below the floor of 0.5 %"


def test_a_plain_table_has_no_colours_and_counts(tables, served):
    text = as_plain(render.lines(judge(tables, served)))
    assert "\x1b" not in text
    assert "3 comparisons: 1 fail, 1 pass, 1 invalid" in text


def test_the_layout_of_the_figure_holds_what_is_known(tables, served):
    root = etree.fromstring(as_xml(judge(tables, served), tables))
    assert [node.get("result_status") for node in root] == ["pass", "invalid", "fail"]
    sampled, summarised = root[0][0], root[2][0]
    assert dict(sampled[0].attrib) == {
        "first_q": "99.5", "max": "101.0", "mean": "100.0", "median": "100.0", "min": "99.0", "stdev": "1.0",
        "third_q": "100.5",
    }  # fmt: skip
    assert set(summarised[1].attrib) == {"first_q", "max", "median", "min", "third_q"}
    assert (summarised.get("median_diff"), summarised.get("threads_no")) == ("-20", "1")


def test_two_runs_are_compared_where_both_measured():
    def results(*parts):
        return ComparisonTables.of_rows([row for part in parts for row in part], [], []).results

    before = results(rows("x", [1.0, 2.0], 7), rows("gone", [1.0], 7))
    after = results(rows("new", [1.0], 7), rows("x", [3.0, 4.0], 7))
    both = paired(before, after)
    assert both.comparisons["operation"].tolist() == ["x"]
    x = both.results[both.results["operation"] == "x"]
    assert list(zip(x["order"], x["value"], strict=True)) == [(0, 1.0), (0, 2.0), (1, 3.0), (1, 4.0)]


def test_two_runs_with_nothing_in_common_are_refused():
    before = ComparisonTables.of_rows(rows("x", [1.0]), [], []).results
    with pytest.raises(InputError, match="in common"):
        paired(before, before.assign(machine="other"))
