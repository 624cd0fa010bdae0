import json

import pytest
from lxml import etree

from data.comparisons.tables import ComparisonTables, version_ranges
from serving.comparisons import render
from serving.comparisons.judge import judge_tables
from serving.comparisons.xml.report import as_xml
from serving.models import Served
from serving.reports.verdict_lines import VerdictLine, VerdictTable, as_junit, as_markdown, as_plain
from tests.code.comparisons.inputs import comparison_row, rows
from training.comparisons.stored import Card, ReadyModel

FIVE = ("min", "q1", "median", "q3", "max")


@pytest.fixture
def tables():
    """An equal operation, one that cannot be judged, a slower one as summaries."""
    results = rows("equal", [99.0, 100.0, 101.0]) + rows("equal", [99.0, 100.0, 101.0], 1)
    results += rows("zero", [0.0, 0.0, 0.0]) + rows("zero", [1.0, 1.0, 1.0], 1)
    results += rows("slow", [98.0, 99.0, 100.0, 101.0, 102.0], 0, FIVE)
    results += rows("slow", [78.0, 79.0, 80.0, 81.0, 82.0], 1, FIVE)
    return ComparisonTables.from_rows(
        results, [comparison_row("equal"), comparison_row("zero"), comparison_row("slow")], []
    )


def rows_of(tables, served):
    return render.table_lines(judge_tables(tables, served), version_ranges(tables))


def test_verdicts_keep_their_order_around_an_invalid_comparison(tables, served):
    equal, zero, slow = judge_tables(tables, served).verdicts
    assert [v.verdict for v in (equal, zero, slow)] == ["pass", "invalid", "fail"]
    assert (zero.probability, zero.reasons) == (None, ())
    assert "not above 0" in zero.invalid_reason
    medians = [reason for reason in slow.reasons if reason.feature.startswith("medians")]
    assert [reason.value for reason in medians] == pytest.approx([-(0.2**0.5)] * len(medians))
    assert len(medians) == len(slow.reasons) == 3


def test_the_requested_number_of_strongest_reasons_is_returned(tables, served):
    reasons = judge_tables(tables, served, reasons=5).verdicts[2].reasons
    sizes = [abs(reason.contribution) for reason in reasons]
    assert len(reasons) == 5
    assert sizes == sorted(sizes, reverse=True)


def test_a_probability_equal_to_the_threshold_fails(tables, served):
    probability = judge_tables(tables, served).verdicts[2].probability
    card = served.model.card
    moved = Card(card.model, card.features, probability, {}, card.reference, card.data_digest, 0)
    model = ReadyModel(served.model.answering, moved)
    assert judge_tables(tables, Served(model, served.ref)).verdicts[2].verdict == "fail"


def test_the_verdict_of_a_comparison_does_not_depend_on_others(tables, served):
    alone = ComparisonTables(
        tables.results, tables.comparisons.iloc[[2]].reset_index(drop=True), tables.labels
    )
    together = judge_tables(tables, served).verdicts[2]
    assert judge_tables(alone, served).verdicts[0] == together


def test_an_empty_request_gives_an_empty_judgement(tables, served):
    none = judge_tables(ComparisonTables(tables.results, tables.comparisons.iloc[:0], tables.labels), served)
    assert (len(none), json.loads(render.as_json(none))["verdicts"]) == (0, [])


def test_a_request_with_only_invalid_comparisons_is_judged(tables, served):
    zero = ComparisonTables(
        tables.results, tables.comparisons.iloc[[1]].reset_index(drop=True), tables.labels
    )
    judged = judge_tables(zero, served)
    assert (judged.unit, judged.count_verdicts("invalid")) == ("log-odds", 1)


def test_json_has_null_for_a_missing_probability(tables, served):
    answer = json.loads(render.as_json(judge_tables(tables, served)))
    assert answer["model"] == {
        "name": "m",
        "version": "7",
        "uri": "models:/m/7",
        "digest": "",
        "min_effect_size": 0.005,
        "contribution_unit": "log-odds",
        "decided": {
            "max_false_negative_rate": None,
            "max_false_positive_rate": None,
            "max_review_rate": None,
            "costs": None,
            "confidence": None,
            "summary": "nothing is promised",
        },
    }
    assert [v["probability"] is None for v in answer["verdicts"]] == [False, True, False]
    assert answer["verdicts"][2]["invalid_reason"] is None


def test_markdown_escapes_names_and_sorts_fail_invalid_pass(tables, served):
    lines = as_markdown(rows_of(tables, served)).splitlines()
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["**fail**", "**invalid**", "pass"]
    assert "| b `& <c>` |" in lines[4]


def test_junit_report_counts_and_explains_verdicts(tables, served):
    root = etree.fromstring(as_junit(rows_of(tables, served)).encode())
    assert dict(root[0].attrib) == {
        "name": "b & <c>",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    assert [[child.tag for child in case] for case in root[0].findall("testcase")] == [
        [],
        ["skipped"],
        ["failure"],
    ]


def test_a_plain_table_has_no_colours_but_counts(tables, served):
    text = as_plain(rows_of(tables, served))
    assert "\x1b" not in text
    assert "3 comparisons: 1 fail, 1 pass, 1 invalid" in text


def test_xml_answers_follow_the_layout_of_the_figure(tables, served):
    root = etree.fromstring(as_xml(judge_tables(tables, served), tables))
    assert [node.get("result_status") for node in root] == ["pass", "invalid", "fail"]
    assert [[child.tag for child in node] for node in root] == [
        ["verdict", "result"], ["verdict", "result"], ["verdict", "result"],
    ]  # fmt: skip
    sampled, summarised = root[0][1], root[2][1]
    assert dict(sampled[0].attrib) == {
        "first_q": "99.5", "max": "101.0", "mean": "100.0", "median": "100.0", "min": "99.0", "stdev": "1.0",
        "third_q": "100.5",
    }  # fmt: skip
    assert set(summarised[1].attrib) == {"first_q", "max", "median", "min", "third_q"}
    assert (summarised.get("median_diff"), summarised.get("threads_no")) == ("-20", "1")


@pytest.fixture
def thrice():
    """An operation in three versions, each compared with the one before; another one in the last two."""
    results = [row for order in range(4) for row in rows("x", [99.0, 100.0, 101.0], order)]
    results += rows("y", [1.0, 2.0], 2) + rows("y", [1.0, 2.0], 3)
    comparisons = [
        comparison_row("x")
        | {"comparison_id": f"x-{order}", "baseline_from": order - 1, "baseline_to": order - 1,
           "target_from": order, "target_to": order}
        for order in (1, 2, 3)
    ]  # fmt: skip
    last = comparison_row("y") | {"baseline_from": 2, "baseline_to": 2, "target_from": 3, "target_to": 3}
    return ComparisonTables.from_rows(results, [*comparisons, last], [])


def test_text_tables_distinguish_several_versions_of_an_operation(thrice, served):
    told = rows_of(thrice, served)
    for text in (as_plain(told), as_markdown(told).replace("-&gt;", "->").replace("`", "")):
        for which in ("x-1 (0 -> 1)", "x-2 (1 -> 2)", "x-3 (2 -> 3)", "id-y (2 -> 3)"):
            assert sum(which in line for line in text.splitlines()) == 1
    assert as_markdown(told).splitlines()[2].count("|") == as_markdown(told).splitlines()[3].count("|")


def test_several_versions_of_an_operation_get_unique_test_cases(thrice, served):
    root = etree.fromstring(as_junit(rows_of(thrice, served)).encode())
    assert [case.get("name") for case in root.iter("testcase")] == [
        "x [x-1 (0 -> 1)]", "x [x-2 (1 -> 2)]", "x [x-3 (2 -> 3)]", "y",
    ]  # fmt: skip


def test_common_versions_do_not_qualify_operations_of_two_machines(served):
    results = [row | {"machine": m} for m in "pq" for order in (0, 1) for row in rows("x", [1.0, 2.0], order)]
    both = [comparison_row("x") | {"comparison_id": f"b/x/{machine}", "machine": machine} for machine in "pq"]
    root = etree.fromstring(as_junit(rows_of(ComparisonTables.from_rows(results, both, []), served)).encode())
    assert [case.get("name") for case in root.iter("testcase")] == ["x [b/x/p]", "x [b/x/q]"]


def test_distinct_operation_names_need_no_extra_column(tables, served):
    assert as_markdown(rows_of(tables, served)).splitlines()[2].count("|") == 6


def test_test_cases_differing_in_control_characters_keep_unique_names():
    told = [VerdictLine("pass", 0.1, "s", f"x{char}", "") for char in ("\x01", "\x02", "\ufffd #2")]
    root = etree.fromstring(as_junit(VerdictTable(told, ("a", "b", "c"), "")).encode())
    names = [case.get("name") for case in root.iter("testcase")]
    assert len(set(names)) == 3


def test_version_ranges_use_orders_for_unnamed_versions():
    results = [row for order in range(4) for row in rows("x", [1.0], order)]
    given = [row | {"version": None if row["order"] == 3 else f"v{row['order']}"} for row in results]
    span = comparison_row("x") | {"baseline_to": 2, "target_from": 3, "target_to": 3}
    assert version_ranges(ComparisonTables.from_rows(given, [span], [])) == ["v0..v2 -> 3"]
