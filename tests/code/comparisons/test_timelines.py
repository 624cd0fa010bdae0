"""Timelines: windows under judgement, lasting changes, states, and the page that shows them."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from data.errors import escape_invisible
from features.comparisons import lasting_changes
from features.comparisons.lasting_changes import SHORTEST, Courses, Shift, find_lasting_changes, step_near
from features.comparisons.newest_change import newest_change, with_first_change
from serving.comparisons.timelines import judged, page
from serving.comparisons.timelines.assembled import Change, group_changes, operation_state
from serving.comparisons.timelines.judged import MARK, OperationMarks, VersionSides, VersionVerdict
from tests.comparison_rows import compared, result
from tests.timeline_reports import heat, renamed, simulated, with_operations

PASS, UNSURE, FAIL = 1, 2, 3


def of(counts, threads=(1, 2)):
    """Return an operation with so many samples of each version: the same of every configuration."""
    counts = np.array(counts)
    values = np.random.default_rng(0).uniform(1, 2, (len(threads), counts.sum()))
    edges = np.cumsum(np.r_[0, counts]) + counts.sum() * np.arange(len(threads))[:, None]
    five = np.full((len(threads), len(counts), 5), np.nan)
    for row, at in zip(*np.nonzero(np.tile(counts, (len(threads), 1))), strict=True):
        own = values.ravel()[edges[row, at] : edges[row, at + 1]]
        five[row, at] = np.quantile(own, [0, 0.25, 0.5, 0.75, 1])
    operation = MeasuredOperation("b", "o", "s", "lower", threads, 0)
    return MeasuredVersions((operation,), values.ravel(), edges, five)


def asks(measured, shifts=()):
    (operation,) = measured.operations
    return list(judged.OperationCourse.from_shifts(0, operation, measured, shifts).version_comparisons(0))


def told(found, *, beside):
    return {one.version: one[3:] for one in found if one.beside_baseline == beside}


def test_versions_are_compared_with_the_last_and_the_baselines_level():
    found = told(asks(of([3, 3, 0, 3])), beside=False)
    assert found == {1: (range(0), range(1), range(1, 2)), 3: (range(1), range(1, 2), range(3, 4))}
    # which excludes the version under judgement
    found = told(asks(of([3] * 12), shifts=[Shift("drop", 8, 8, -0.1)]), beside=True)
    assert found[10] == (range(1, 8), range(1), range(10, 11))
    assert found[2][0] == range(3, 8)
    assert found[6][0] == range(1, 6)
    assert 0 not in found


def test_windows_pool_versions_with_few_samples_within_a_level():
    found = asks(of([1] * 30), shifts=[Shift("drop", 20, 20, -0.1)])
    before, baseline = (told(found, beside=beside) for beside in (False, True))
    assert before[15] == (range(5), range(5, 15), range(15, 20))
    assert {1, 29}.isdisjoint(before)
    assert [baseline[at][1:] for at in (17, 29)] == [(range(10), range(17, 20)), (range(10), range(28, 30))]
    # levels around a lasting loss are compared at its start
    found = asks(of([3] * 20), [Shift("creep", 12, 16, -0.1), Shift("gain", 18, 18, 0.1)])
    assert [one[3:] for one in found if one.version == 12 and not one.beside_baseline] == [
        (range(11), range(11, 12), range(12, 13)),
        (range(2), range(2, 12), range(16, 18)),
    ]


def test_sides_of_windows_equal_sides_of_equivalent_tables():
    measured = of([3, 4, 3, 5])
    rows = [
        result(order=order, value=value, series_id=f"{threads}", threads=threads, version=None)
        for row, threads in enumerate((1, 2))
        for order in range(4)
        for value in measured.values[measured.edges[row, order] : measured.edges[row, order + 1]]
    ]
    asked = [compared(f"{at}", "o", (at - 1, at - 1), (at, at)) for at in (1, 2, 3)]
    wanted = Sides.from_tables(ComparisonTables.from_rows(rows, asked))
    found = [one for one in asks(measured) if not one.beside_baseline]
    sides = VersionSides.from_measured(measured).comparison_sides(found)
    for name in ("comparison", "threads", "sign", "baseline_five", "target_five"):
        assert getattr(sides, name) == pytest.approx(getattr(wanted, name))
    for name in ("baseline", "target", "history", "later"):
        for row in range(6):
            mine, its = (getattr(one, name).samples_of_row(row) for one in (sides, wanted))
            assert mine.tolist() == its.tolist()
    # summaries are represented by medians
    five = np.tile(np.arange(1.0, 15)[:, None], (2, 1, 1)) + np.arange(-0.2, 0.3, 0.1)
    summaries = replace(of([0] * 14), five=five)
    tenth = next(one for one in asks(summaries) if one.version == 10)
    sides = VersionSides.from_measured(summaries).comparison_sides([tenth])
    assert sides.baseline.samples_of_row(0).tolist() == list(range(1, 11))
    assert sides.target.samples_of_row(1).tolist() == [11, 12, 13, 14]


def marked(measured, fails, **changes):
    """Return the marks if these versions fail beside those before them."""

    def answering(_given, wanted):
        for one in wanted:
            verdict = FAIL if one.version in fails and not one.beside_baseline else PASS
            yield VersionVerdict(verdict, 0.9, changes.get(f"v{one.version}", -0.1), lambda: "worse")

    (found,) = judged.judged_versions(measured, 0, [()], np.full(2, 0.01), answering)
    return found, np.flatnonzero(found.against_before == FAIL).tolist()


def test_one_step_in_several_windows_or_versions_is_reported_once():
    found, failing = marked(of([1] * 40), {18, 19, 20, 22, 35}, v20=-0.3)
    assert failing == [20, 35]
    assert found.words == dict.fromkeys((20, 35), ("beside the versions before: worse",))
    assert marked(of([3] * 20), {5, 6, 8, 15})[1] == [5, 15]


def test_versions_that_are_better_or_within_noise_are_not_unsure():
    def answering(_given, wanted):
        return [VersionVerdict(UNSURE, 0.5, -0.02, lambda: "doubted") for _ in wanted]

    measured = of([3] * 20)
    medians = measured.five[..., 2]
    (found,) = judged.judged_versions(measured, 0, [()], np.array([0.3, 0.1]), answering)
    lost = medians[:, 1:] / medians[:, :-1] - 1
    beyond = (lost > np.array([[0.3], [0.1]])).any(axis=0)
    assert 0 < beyond.sum() < len(beyond)
    assert (found.against_before[1:] == UNSURE).tolist() == beyond.tolist()
    # beside the baseline, the featured configuration, which is the last one, has to be better
    loss = medians[:, 1:] / medians[:, :1] - 1
    worse = (loss > np.array([[0.3], [0.0]])).any(axis=0)
    assert 0 < worse.sum() < len(worse)
    assert (found.against_baseline[1:] == UNSURE).tolist() == worse.tolist()


SPACE = "\N{NO-BREAK SPACE}"


def test_pages_of_500_operations_and_200_versions_stay_below_20_megabytes():
    # a tenth of the operations: the size grows with them
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


def test_links_are_relative_and_values_have_four_digits():
    links = {
        "a b/result #1.xml": "./a%20b/result%20%231.xml",
        "javascript:alert(1)": "./javascript%3Aalert%281%29",
        "//elsewhere/x": "./elsewhere/x",
        "\\\\elsewhere\\x": "./%5C%5Celsewhere%5Cx",
        "../results/\u00e9\udcff.xml": "./../results/%C3%A9%FF.xml",
        "": "",
    }
    assert {source: page.relative_link(source) for source in links} == links
    values = [83903.1, 190.0, 0.00123456, -5.0, 0.0, 1.9e15, np.nan]
    assert [page.format_amount(value) for value in values] == [
        "83,903", "190.0", "0.001235", "\u22125.000", "0.000", "1,900,000,000,000,000", "\N{EN DASH}",
    ]  # fmt: skip


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


def test_a_summary_sorts_operations_by_state_and_loss(quiet):
    found = page.list_findings(quiet)
    assert [one.operation.state.status for one in found] == [
        "unchanged", "worse", "unchanged", "worse", "better", "unchanged",
    ]  # fmt: skip
    assert [one.number for one in page.unstable_findings(found)] == [4]
    assert page.finding_ranks(found) == [3, 1, 4, 0, 2, 5]
    names, versions = [one.operation for one in quiet.operations], [one.name for one in quiet.versions]
    assert f"3 versions worse than the baseline ({versions[17]}" in found[3].verdicts
    failed = quiet.operations[3].state.change
    assert (failed.change, failed.since, failed.lasting) == (pytest.approx(-0.3), 17, False)
    # in text, too
    head, worst, crept, fine = page.summary_lines(quiet)
    assert (
        head == f"2 of 6 operations are worse now, with {versions[-1]}, than at the baseline {versions[0]}."
    )
    assert worst.startswith(f"  {names[3]}: 30.0{SPACE}% worse (")
    assert worst.endswith(f" since {versions[17]}, by verdicts; not yet lasting")
    assert crept.endswith(f" since {versions[2]}, in small steps")
    assert fine == (
        f"  Without a problem: 1 better ({names[4]}), 3 unchanged ({names[0]}, {names[2]}, {names[5]})."
    )
    assert page.summary_lines(quiet, 1)[2] == "  and 1 more"


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


ALTERNATING = np.where(np.arange(20) % 2 == 0, 1.001, 0.999)


def step(at, share, *, n=20):
    return 100 * ALTERNATING[:n] * np.where(np.arange(n) >= at, 1 + share, 1.0)


def test_a_step_gives_its_size_levels_and_version():
    found = newest_change(step(12, -0.1), [Shift("drop", 12, 12, -0.1)], 1.0, 0)
    assert found.change == pytest.approx(-0.1, abs=0.001)
    assert found.low < -0.1 < found.high < -0.095
    assert (found.baseline_level, found.newest_level) == pytest.approx((100, 90), rel=0.002)
    assert (found.since, found.creeping, found.lasting, found.lost) == (12, False, True, True)
    # where lower is better
    found = newest_change(step(12, -0.1), [Shift("gain", 12, 12, 0.1)], -1.0, 0)
    assert found.change == pytest.approx(0.1, abs=0.001)
    assert (found.gained, found.lost, found.since) == (True, False, 12)


def test_losses_before_the_baseline_or_made_up_do_not_count():
    values = step(6, -0.1) * np.where(np.arange(20) >= 12, 1 / 0.9, 1.0)
    shifts = [Shift("drop", 6, 6, -0.1), Shift("gain", 12, 12, 1 / 9)]
    found = newest_change(values, shifts, 1.0, 0)
    assert not found.lost
    assert abs(found.change) < 0.002
    values[16:] *= 0.9
    worse_later = newest_change(values, [*shifts, Shift("drop", 16, 16, -0.1)], 1.0, 0)
    assert (worse_later.lost, worse_later.since) == (True, 16)
    found = newest_change(step(6, -0.1), [Shift("drop", 6, 6, -0.1)], 1.0, 10)
    assert abs(found.change) < 0.002
    assert (found.since, found.lasting) == (None, False)


@given(st.integers(1, 4), st.integers(1, 16), st.floats(-0.5, 0.5), st.sampled_from([-1.0, 1.0]), st.data())
def test_the_end_of_a_level_of_one_or_two_versions_is_found_where_clear(few, later, share, sign, data):
    baseline = data.draw(st.integers(0, few - 1))
    found = with_first_change(step(few, share, n=few + later), [], sign, baseline)
    if few >= SHORTEST or later < SHORTEST or abs(share) < 0.001:
        assert found == ()
    elif abs(share) > 0.1:
        ((kind, first, last, change),) = found
        assert (kind, first, last) == ("gain" if sign * share > 0 else "drop", few, few)
        assert change == pytest.approx(sign * share, abs=0.01)


def test_too_few_versions_have_no_interval_or_no_change():
    found = newest_change(np.array([100.0, 90.0]), [], 1.0, 0)
    assert found.change == pytest.approx(-0.1)
    assert np.isnan([found.low, found.high]).all()
    for missing in (0, slice(1, None)):
        values = step(6, 0.0)
        values[missing] = np.nan
        assert newest_change(values, [], 1.0, 0) is None


def state(values, against_baseline, *, shifts=(), before=()):
    """Return the state of one operation at one thread, of which some versions fail or are unsure."""
    operation = MeasuredOperation("b", "o", "ops", "higher", (1,), 0)
    five = np.repeat(np.asarray(values)[None, :, None], 5, axis=2)
    measured = MeasuredVersions((operation,), np.zeros(0), np.zeros((1, len(values) + 1), np.int64), five)
    marks = OperationMarks.not_judged(len(values))
    marks.against_baseline[1:] = MARK["pass"]
    for at, verdict in against_baseline.items():
        marks.against_baseline[at] = MARK[verdict]
    marks.against_before[list(before)] = MARK["fail"]
    return operation_state(operation, measured, [shifts], np.full(1, 0.05), marks=marks, baseline=0)


def test_newest_versions_decide_the_state_before_a_change_is_lasting():
    found = state(step(18, -0.1), {18: "fail", 19: "fail"})
    assert (found.status, found.change.since, found.change.lasting) == ("worse", 18, False)
    assert found.change.change == pytest.approx(-0.1, abs=0.002)
    assert state(step(18, 0.0), {12: "fail", 19: "unsure"}).status == "unsure"
    assert state(step(18, 0.0), {12: "fail", 18: "unsure"}).status == "unchanged"
    assert state(step(18, 0.2), {}).status == "better"
    assert state(step(18, 0.03), {}).status == "unchanged"
    without_baseline = step(6, 0.0)
    without_baseline[0] = np.nan
    assert state(without_baseline, {}).status == "not compared"
    # a new loss after a lasting one counts in full
    values = step(8, -0.1) * np.where(np.arange(20) >= 19, 0.8, 1.0)
    verdicts = dict.fromkeys(range(8, 20), "fail")
    found = state(values, verdicts, shifts=[Shift("drop", 8, 8, -0.1)], before=[8, 19])
    assert found.change.change == pytest.approx(0.9 * 0.8 - 1, abs=0.003)
    assert found.change.since == 8


@pytest.mark.parametrize(("drop", "found_among_many"), [(0.02, False), (0.03, True)])
def test_a_change_among_many_unchanged_series_must_be_clearer(drop, found_among_many):
    flat = 100 * np.exp(0.01 * np.random.default_rng(2).standard_normal(40))
    changed = flat * np.where(np.arange(40) < 20, 1, 1 - drop)
    (alone,), _ = find_lasting_changes(changed[None], np.ones(1))
    (among_many, *others), _ = find_lasting_changes(np.stack([changed, *[flat] * 399]), np.ones(400))
    assert [shift.kind for shift in alone] == ["drop"]
    assert (bool(among_many), any(others)) == (found_among_many, False)


def test_changes_of_one_kind_and_version_are_one_entry():
    draws = np.random.default_rng(5)
    course = np.where(np.arange(30) >= 15, 0.95, 1.0)
    medians = 100 * course * np.exp(0.003 * draws.standard_normal((40, 30)))
    changes = [[Change(*shift, 1) for shift in own] for own in find_lasting_changes(medians, np.ones(40))[0]]
    (group,) = group_changes(changes)
    assert (group.kind, group.first, sorted(group.shares)) == ("drop", 15, list(range(40)))
    assert group.largest == min(group.shares.values())
    # others stay apart
    drop = Change("drop", 5, 5, -0.1, 1)
    others = [Change("drop", 6, 6, -0.2, 1), Change("gain", 5, 5, 0.1, 1)]
    others += [Change("creep", *span, -0.1, 1) for span in ((2, 9), (3, 9), (9, 15))]
    groups = group_changes([[one] for one in (drop, drop, *others)])
    assert [(one.kind, one.first, sorted(one.shares)) for one in groups] == [
        ("creep", 9, [6]), ("drop", 5, [0, 1, 2]), ("gain", 5, [3]), ("creep", 2, [4, 5]),
    ]  # fmt: skip


PENALTY = 4.0


def by_trying(values, cuts):
    """What a course with these steps costs; infinite if a segment holds too few values."""
    parts = np.split(values, cuts)
    if min(map(len, parts)) < SHORTEST:
        return np.inf
    return sum(((part - part.mean()) ** 2).sum() for part in parts) + PENALTY * len(cuts)


def courses_of(values):
    return [cuts for count in range(4) for cuts in combinations(range(1, len(values)), count)]


@given(st.lists(st.floats(-9, 9), min_size=2 * SHORTEST, max_size=12), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=40)
def test_optimal_segmentation_matches_exhaustive_search_with_missing_values(values, left, right):
    known = np.array(values)
    rows = np.r_[[np.nan] * left, known, [np.nan] * right][None]
    costs = {cuts: by_trying(known, cuts) for cuts in courses_of(known)}
    assert Courses(rows).best_courses(PENALTY).before[0, -1] == pytest.approx(min(costs.values()), abs=1e-9)
    place = len(known) // 2
    with_step = [
        cost for cuts, cost in costs.items() if any(abs(cut - place) < lasting_changes.NEAR for cut in cuts)
    ]
    without = [
        cost for cuts, cost in costs.items() if all(abs(cut - place) >= lasting_changes.NEAR for cut in cuts)
    ]
    found = step_near(left + place, Courses(rows), PENALTY)
    if np.isfinite(min(with_step)) and found.size[0]:
        assert abs(found.evidence[0]) == pytest.approx(abs(min(without) - min(with_step)), abs=1e-6)


def test_a_step_reports_size_length_and_other_steps():
    rows = np.repeat([[0.0, 10.0, 2.0, 5.0]], [6, 4, 5, 7], axis=1)
    step = step_near(10, Courses(rows), PENALTY)
    assert [one[0] for one in (step.size, step.lasts, step.others, step.count)] == [-8, 4, 10, 2]
    assert step.evidence[0] < -10
    # too short for two segments
    assert np.isnan(step_near(3, Courses(np.array([[1.0, 2.0, 9.0, 9.0, np.nan]])), PENALTY).size[0])
    # removing spikes keeps steps in place
    rows = np.array([[1.0, 1.0, 9.0, 1.0, 1.0, 5.0, 5.0, 5.0, np.nan]])
    assert lasting_changes.without_spikes(rows)[0, :8].tolist() == [1, 1, 1, 1, 1, 5, 5, 5]
