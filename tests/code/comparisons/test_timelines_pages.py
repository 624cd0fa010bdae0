import base64
import hashlib
import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import escape_invisible
from serving.comparisons.timelines.assembled import Change
from serving.comparisons.timelines.page import (
    describe_change,
    embed_json,
    finding_ranks,
    format_amount,
    heat_summary,
    improved_findings,
    list_findings,
    operation_data,
    pack_floats,
    relative_link,
    timeline_page,
    unstable_findings,
    worst_findings,
)
from tests.timeline_reports import heat, renamed, simulated, versions

SPACE = "\N{NO-BREAK SPACE}"
MEGABYTE = 1_000_000


def test_pages_of_large_timelines_stay_below_20_megabytes():
    assert len(timeline_page(simulated(200, 500, 4)).encode()) <= 20 * MEGABYTE


@given(st.lists(st.floats(min_value=1e-30, max_value=1e30), min_size=1))
def test_numbers_in_the_page_are_as_precise_as_single_precision(values):
    read = np.frombuffer(base64.b64decode(pack_floats(values)), "<f4")
    np.testing.assert_allclose(read, values, rtol=1e-7)


def test_missing_and_overflowing_values_are_packed_as_nan():
    read = np.frombuffer(base64.b64decode(pack_floats([1.5, np.nan, np.inf, 1e300])), "<f4")
    np.testing.assert_array_equal(read, [1.5, np.nan, np.nan, np.nan])


@given(st.text())
def test_embedded_json_cannot_close_its_element(text):
    written = embed_json({text: [text]})
    assert "<" not in written
    assert json.loads(written) == {escape_invisible(text): [escape_invisible(text)]}


@pytest.mark.parametrize(
    ("source", "href"),
    [
        ("a b/result #1.xml", "./a%20b/result%20%231.xml"),
        ("javascript:alert(1)", "./javascript%3Aalert%281%29"),
        ("//elsewhere/x", "./elsewhere/x"),
        ("\\\\elsewhere\\x", "./%5C%5Celsewhere%5Cx"),
        ("../results/\u00e9\udcff.xml", "./../results/%C3%A9%FF.xml"),
        ("", ""),
    ],
)
def test_links_on_timeline_pages_are_relative_and_quoted(source, href):
    assert relative_link(source) == href


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (83903.1, "83,903"),
        (190.0, "190.0"),
        (0.00123456, "0.001235"),
        (-5.0, "\u22125.000"),
        (0.0, "0.000"),
        (1.9e15, "1,900,000,000,000,000"),
        (float("nan"), "\N{EN DASH}"),
    ],
)
def test_values_have_four_significant_digits_and_no_exponent(value, text):
    assert format_amount(value) == text


def test_changes_are_described_as_worse_or_better():
    names = versions(9)
    first, last = names[3].name, names[7].name
    assert (
        describe_change(Change("drop", 3, 3, -0.123, 8), names, 2)
        == f"12.3{SPACE}% worse with {first} (threads:{SPACE}8)"
    )
    assert describe_change(Change("gain", 3, 3, 0.05, 8), names, 1) == f"5.0{SPACE}% better with {first}"
    crept = f"crept 8.0{SPACE}% worse from {first} to {last} (threads:{SPACE}1)"
    assert describe_change(Change("creep", 3, 7, -0.08, 1), names, 2) == crept


def test_operations_are_sorted_by_worst_change_or_verdict():
    report = simulated(20, 6, 1, heats=0)
    passes = np.ones(20, np.uint8)
    silent = {"changes": (), "instability": 0.01, "words": {}}
    quiet = [
        replace(one, **silent, against_baseline=passes, against_before=passes) for one in report.operations
    ]
    quiet[1] = replace(quiet[1], changes=(Change("creep", 2, 9, -0.08, 1),))
    quiet[4] = replace(quiet[4], changes=(Change("gain", 2, 2, 0.2, 1),), instability=0.07)
    failed = quiet[3].against_baseline.copy()
    failed[7] = 3
    five = quiet[3].five.copy()
    five[:, 7] = five[:, 0] * 0.7
    quiet[3] = replace(quiet[3], against_baseline=failed, five=five)
    found = list_findings(replace(report, operations=tuple(quiet)))
    assert [one.number for one in worst_findings(found)] == [3, 1]
    assert worst_findings(found)[0].severity == pytest.approx(0.3)
    assert [one.number for one in improved_findings(found)] == [4]
    assert [one.number for one in unstable_findings(found)] == [4]
    assert finding_ranks(found) == [3, 1, 4, 0, 2, 5]
    assert found[0].words == ""
    kernel = report.versions[7].name
    assert f"1 version worse than the baseline ({kernel}" in found[3].verdicts


def test_a_loss_is_worded_by_the_better_direction():
    report = renamed(simulated(20, 1, 1, heats=0), better="lower", changes=())
    five, failed = report.operations[0].five.copy(), report.operations[0].against_baseline.copy()
    five[:, 7], failed[7] = five[:, 0] * 1.4, 3
    assert list_findings(renamed(report, five=five, against_baseline=failed))[0].severity == pytest.approx(
        0.4
    )


def test_timeline_pages_allow_only_their_own_scripts():
    text = timeline_page(simulated(5, 3, 2))
    allowed = set(re.findall(r"'sha256-([^']+)'", html.unescape(text[: text.index("<title>")])))
    run = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert {base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in run} == allowed
    own = "".join(run[1:])
    assert not re.search(r"\beval\b|new Function|innerHTML|insertAdjacentHTML|document\.write", own)
    assert not re.search(r"<[^>]+\son\w+=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    assert "Redistributions of source code must retain" in text


def test_a_page_without_judged_versions_states_it():
    report = simulated(3, 1, 1, heats=0)
    one = report.operations[0]
    nothing = np.zeros_like(one.against_before)
    report = renamed(report, against_before=nothing, against_baseline=nothing, changes=(), words={},
                     probability=np.full(3, np.nan))  # fmt: skip
    text = timeline_page(replace(report, judged_by=""))
    assert "No version fails" in text
    assert "no model" in text
    assert json.loads(operation_data(report.operations[0]))["probability"] == [None] * 3


def test_a_heat_map_has_a_summary_in_words():
    drawn = heat(3, 10)
    values = np.array([[1.0] * 10, [90.0] * 9 + [np.nan], [50.0] * 10])
    assert heat_summary(replace(drawn, values=values)) == (
        "3 rows over 9.000 seconds, from 1.000 to 90.00 %. "
        "On the whole, CPU 1 is highest with 90.00, CPU 0 lowest with 1.000."
    )
    assert heat_summary(replace(drawn, values=np.full((3, 10), np.nan))) == "No sample is known."
