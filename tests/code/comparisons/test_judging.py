import json
from dataclasses import replace

import pytest
from lxml import etree

from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables, version_ranges
from serving.comparisons import render
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import with_card
from serving.comparisons.xml.report import as_xml
from serving.reports.verdict_lines import VerdictLine, VerdictTable, as_junit, as_markdown, as_plain
from tests.code.comparisons.inputs import comparison_row, rows
from tests.comparison_rows import compared

SAMPLES = {"equal": ([99.0, 100.0, 101.0],) * 2, "zero": ([0.0] * 3, [1.0] * 3)}


@pytest.fixture
def tables():
    """An equal operation, one that cannot be judged, a slower one as summaries."""
    results = [row for name, sides in SAMPLES.items() for at in (0, 1) for row in rows(name, sides[at], at)]
    for order, middle in ((0, 100.0), (1, 80.0)):
        results += rows("slow", [middle + distance for distance in range(-2, 3)], order, FIVE_NUMBERS)
    return ComparisonTables.from_rows(results, [comparison_row(name) for name in (*SAMPLES, "slow")], [])


def only(tables, chosen):
    """Return some of the comparisons, with all results."""
    return replace(tables, comparisons=tables.comparisons.iloc[chosen].reset_index(drop=True))


def rows_of(tables, served):
    return render.table_lines(judge_tables(tables, served), version_ranges(tables))


def suite_of(tables, served):
    return etree.fromstring(as_junit(rows_of(tables, served)).encode())[0]


def test_verdicts_keep_their_order_around_an_invalid_comparison(tables, served):
    equal, zero, slow = judge_tables(tables, served).verdicts
    assert [v.verdict for v in (equal, zero, slow)] == ["pass", "invalid", "fail"]
    assert (zero.probability, zero.reasons) == (None, ())
    assert "no value above 0" in zero.invalid_reason
    medians = [reason for reason in slow.reasons if reason.feature.startswith("medians")]
    assert [reason.value for reason in medians] == pytest.approx([-(0.2**0.5)] * len(medians))
    assert len(medians) == len(slow.reasons) == 3


def test_the_strongest_reasons_come_first(tables, served):
    reasons = judge_tables(tables, served).verdicts[2].reasons
    sizes = [abs(reason.contribution) for reason in reasons]
    assert len(reasons) == 3
    assert sizes == sorted(sizes, reverse=True)


def test_a_probability_equal_to_the_threshold_fails(tables, served):
    probability = judge_tables(tables, served).verdicts[2].probability
    exact = with_card(served, replace(served.model.card, threshold=probability))
    assert judge_tables(tables, exact).verdicts[2].verdict == "fail"


def test_requests_without_valid_comparisons_give_a_judgement(tables, served):
    none, zero = (judge_tables(only(tables, chosen), served) for chosen in ([], [1]))
    assert (len(none), json.loads(render.as_json(none))["verdicts"]) == (0, [])
    assert (zero.unit, zero.count_verdicts("invalid")) == ("log-odds", 1)


def test_json_has_null_for_a_missing_probability(tables, served):
    answer = json.loads(render.as_json(judge_tables(tables, served)))
    asked = ("max_false_negative_rate", "max_false_positive_rate", "max_review_rate", "costs", "confidence")
    assert answer["model"] == {
        "name": "m", "version": "7", "uri": "models:/m/7", "digest": "",
        "min_effect_size": 0.005, "contribution_unit": "log-odds",
        "decided": {**dict.fromkeys(asked), "summary": "nothing is promised"},
    }  # fmt: skip
    assert [v["probability"] is None for v in answer["verdicts"]] == [False, True, False]
    assert answer["verdicts"][2]["invalid_reason"] is None


def test_markdown_escapes_names_and_sorts_fail_invalid_pass(tables, served):
    lines = as_markdown(rows_of(tables, served)).splitlines()
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["**fail**", "**invalid**", "pass"]
    assert "| b `& <c>` |" in lines[4]
    # distinct names need no column of versions
    assert lines[2].count("|") == 6


def test_junit_report_counts_and_explains_verdicts(tables, served):
    suite = suite_of(tables, served)
    counts = {"tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    assert dict(suite.attrib) == {"name": "b & <c>", **counts}
    children = [[child.tag for child in case] for case in suite.findall("testcase")]
    assert children == [[], ["skipped"], ["failure"]]


def test_a_plain_table_has_no_colours_but_counts(tables, served):
    text = as_plain(rows_of(tables, served))
    assert "\x1b" not in text
    assert "3 comparisons: 1 fail, 1 pass, 1 invalid" in text


def test_xml_answers_follow_the_layout_of_the_figure(tables, served):
    root = etree.fromstring(as_xml(judge_tables(tables, served), tables))
    assert [node.get("result_status") for node in root] == ["pass", "invalid", "fail"]
    assert [[child.tag for child in node] for node in root] == [["verdict", "result"]] * 3
    sampled, summarised = root[0][1], root[2][1]
    assert dict(sampled[0].attrib) == {
        "first_q": "99.5", "max": "101.0", "mean": "100.0", "median": "100.0", "min": "99.0", "stdev": "1.0",
        "third_q": "100.5",
    }  # fmt: skip
    assert set(summarised[1].attrib) == {"first_q", "max", "median", "min", "third_q"}
    assert (summarised.get("median_diff"), summarised.get("threads_no")) == ("-20", "1")


def test_several_versions_of_an_operation_are_distinguished_everywhere(served):
    """An operation in three versions, each compared with the one before; another one in the last two."""
    results = [row for order in range(4) for row in rows("x", [99.0, 100.0, 101.0], order)]
    results += rows("y", [1.0, 2.0], 2) + rows("y", [1.0, 2.0], 3)
    orders = [(f"x-{order}", "x", order) for order in (1, 2, 3)]
    asked = [
        compared(name, operation, (order - 1, order - 1), (order, order), benchmark="b & <c>")
        for name, operation, order in (*orders, ("id-y", "y", 3))
    ]
    thrice = ComparisonTables.from_rows(results, asked, [])
    told = rows_of(thrice, served)
    for text in (as_plain(told), as_markdown(told).replace("-&gt;", "->").replace("`", "")):
        for which in ("x-1 (0 -> 1)", "x-2 (1 -> 2)", "x-3 (2 -> 3)", "id-y (2 -> 3)"):
            assert sum(which in line for line in text.splitlines()) == 1
    assert as_markdown(told).splitlines()[2].count("|") == as_markdown(told).splitlines()[3].count("|")
    names = [case.get("name") for case in suite_of(thrice, served).iter("testcase")]
    assert names == ["x [x-1 (0 -> 1)]", "x [x-2 (1 -> 2)]", "x [x-3 (2 -> 3)]", "y"]


def test_common_versions_do_not_qualify_operations_of_two_machines(served):
    results = [row | {"machine": m} for m in "pq" for order in (0, 1) for row in rows("x", [1.0, 2.0], order)]
    both = [comparison_row("x") | {"comparison_id": f"b/x/{machine}", "machine": machine} for machine in "pq"]
    suite = suite_of(ComparisonTables.from_rows(results, both, []), served)
    assert [case.get("name") for case in suite.iter("testcase")] == ["x [b/x/p]", "x [b/x/q]"]


def test_test_cases_differing_in_control_characters_keep_unique_names():
    told = [VerdictLine("pass", 0.1, "s", f"x{char}", "") for char in ("\x01", "\x02", "\ufffd #2")]
    root = etree.fromstring(as_junit(VerdictTable(told, ("a", "b", "c"), "")).encode())
    assert len({case.get("name") for case in root.iter("testcase")}) == 3


def test_version_ranges_use_orders_for_unnamed_versions():
    results = [row for order in range(4) for row in rows("x", [1.0], order)]
    given = [row | {"version": None if row["order"] == 3 else f"v{row['order']}"} for row in results]
    span = comparison_row("x") | {"baseline_to": 2, "target_from": 3, "target_to": 3}
    assert version_ranges(ComparisonTables.from_rows(given, [span], [])) == ["v0..v2 -> 3"]
