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
from serving.comparisons.timelines import page
from serving.comparisons.timelines.assembled import Change
from tests.timeline_reports import heat, renamed, simulated, with_operations

SPACE = "\N{NO-BREAK SPACE}"


def test_pages_of_500_operations_and_200_versions_stay_below_20_megabytes():
    assert len(page.timeline_page(simulated(200, 50, 4)).encode()) <= 2_000_000


@given(st.lists(st.floats(min_value=1e-30, max_value=1e30), min_size=1))
def test_numbers_are_packed_in_single_precision_or_as_nan(values):
    read = np.frombuffer(base64.b64decode(page.pack_floats([*values, np.nan, np.inf, 1e300])), "<f4")
    np.testing.assert_allclose(read, [*values, np.nan, np.nan, np.nan], rtol=1e-7)


@given(st.text())
def test_embedded_json_cannot_close_its_element(text):
    written = page.embed_json({text: [text]})
    assert "<" not in written
    assert json.loads(written) == {escape_invisible(text): [escape_invisible(text)]}


def test_links_on_timeline_pages_are_relative_and_quoted():
    links = {
        "a b/result #1.xml": "./a%20b/result%20%231.xml",
        "javascript:alert(1)": "./javascript%3Aalert%281%29",
        "//elsewhere/x": "./elsewhere/x",
        "\\\\elsewhere\\x": "./%5C%5Celsewhere%5Cx",
        "../results/\u00e9\udcff.xml": "./../results/%C3%A9%FF.xml",
        "": "",
    }
    assert {source: page.relative_link(source) for source in links} == links


@pytest.fixture
def quiet():
    """Return a report of six operations: 1 crept down, 3 failed in the last three versions, 4 gained."""
    report, passes = simulated(20, 6, 1, heats=0), np.ones(20, np.uint8)
    five = np.full((6, 1, 20, 5), 100.0) + np.arange(5)
    five[1, :, 2:] *= np.linspace(0.99, 0.92, 18)[:, None]
    five[3, :, 17:] *= 0.7
    five[4, :, 2:] *= 1.2
    silent = {"changes": (), "instability": 0.01, "words": {}, "against_before": passes}
    different = {
        1: {"changes": (Change("creep", 2, 19, -0.08, 1),)},
        3: {"against_baseline": np.where(np.arange(20) >= 17, 3, passes)},
        4: {"changes": (Change("gain", 2, 2, 0.2, 1),), "instability": 0.07},
    }
    own = [
        replace(one, **silent | {"five": five[at], "against_baseline": passes} | different.get(at, {}))
        for at, one in enumerate(report.operations)
    ]
    return with_operations(report, own)


def test_operations_are_sorted_by_state_and_loss(quiet):
    found = page.list_findings(quiet)
    assert [one.operation.state.status for one in found] == [
        "unchanged", "worse", "unchanged", "worse", "better", "unchanged",
    ]  # fmt: skip
    assert [one.number for one in page.unstable_findings(found)] == [4]
    assert page.finding_ranks(found) == [3, 1, 4, 0, 2, 5]
    kernel = quiet.versions[17].name
    assert f"3 versions worse than the baseline ({kernel}" in found[3].verdicts
    failed = quiet.operations[3].state
    assert failed.change.change == pytest.approx(-0.3)
    assert (failed.change.since, failed.change.lasting) == (17, False)


def test_a_summary_in_text_names_the_worst_operation_first(quiet):
    newest, baseline = quiet.versions[-1].name, quiet.versions[0].name
    head, worst, crept, fine = page.summary_lines(quiet)
    assert head == f"2 of 6 operations are worse now, with {newest}, than at the baseline {baseline}."
    assert worst.startswith(f"  {quiet.operations[3].operation}: 30.0{SPACE}% worse (")
    assert worst.endswith(f" since {quiet.versions[17].name}, by verdicts; not yet lasting")
    assert crept.endswith(f" since {quiet.versions[2].name}, in small steps")
    names = [one.operation for one in quiet.operations]
    assert fine == (
        f"  Without a problem: 1 better ({names[4]}), 3 unchanged ({names[0]}, {names[2]}, {names[5]})."
    )
    assert page.summary_lines(quiet, 1)[2] == "  and 1 more"


def test_the_list_has_every_state_and_every_grouped_change(quiet):
    listed = page.list_report(quiet, "x.html")
    assert [listed[f"n_{name}"] for name in ("worse", "unsure", "failed", "changed")] == [2, 0, 1, 2]
    states = [one["state"] for one in listed["operations"]]
    assert [state["status"] for state in states[:3]] == ["worse", "worse", "better"]
    assert states[1]["low"] <= states[1]["change"] <= states[1]["high"] < 0
    assert (states[1]["since"], states[1]["creeping"], states[1]["lasting"]) == (
        quiet.versions[2].name, True, True,
    )  # fmt: skip
    assert [(one["kind"], one["operations"]) for one in listed["changes"]] == [
        ("creep", [quiet.operations[1].operation]), ("gain", [quiet.operations[4].operation]),
    ]  # fmt: skip


def test_a_loss_is_worded_by_the_better_direction():
    report = renamed(simulated(20, 1, 1, heats=0), better="lower", changes=())
    five, failed = report.operations[0].five.copy(), np.ones(20, np.uint8)
    five[:, 17:], failed[17:] = five[:, :1] * 1.4, 3
    (one,) = renamed(report, five=five, against_baseline=failed).operations
    assert one.state.status == "worse"
    assert one.state.change.change == pytest.approx(-0.4, abs=0.01)


def test_timeline_pages_allow_only_their_own_scripts():
    text = page.timeline_page(simulated(5, 3, 2))
    allowed = set(re.findall(r"'sha256-([^']+)'", html.unescape(text[: text.index("<title>")])))
    run = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert {base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in run} == allowed
    own = "".join(run[1:])
    assert not re.search(r"\beval\b|new Function|innerHTML|insertAdjacentHTML|document\.write", own)
    assert not re.search(r"<[^>]+\son\w+=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    assert "Redistributions of source code must retain" in text


def test_a_heat_map_has_a_summary_in_words():
    values = np.array([[1.0] * 10, [90.0] * 9 + [np.nan], [50.0] * 10])
    summary = page.heat_summary(replace(heat(3, 10), values=values))
    assert summary.endswith("CPU 1 is highest with 90.00, CPU 0 lowest with 1.000.")
    assert page.heat_summary(replace(heat(3, 10), values=values * np.nan)) == "No sample is known."
