import numpy as np
import pandas as pd
import pytest

from serving.fingerprints import machine_charts as charts
from serving.fingerprints.profile_bars import DifferenceBars, ProfileBars
from serving.fingerprints.profiled import Reported
from serving.fingerprints.worst_cases import WorstPredictions
from serving.reports.rendering import template_environment
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.trust import Trust

SPACE = "\N{NO-BREAK SPACE}"
SIX = {"cache": 100, "zero": 80, "hsearch": 40, "cpu": 20, "vm": 10, "nop": 0.4}
CATEGORIES = dict(zip(SIX, ("Cache", "Mem", "CPU, Cache, Mem", "CPU", "Mem, VM", "CPU"), strict=True))
REASON = "2 machines, fewer than 15"


def profile(reasons=(), leaders=("cache",), cluster=range(6)):
    """Make a profile of the six stressors above, most important first."""
    values = np.array([*SIX.values()], float)
    features = pd.DataFrame({
        "stressor": [*SIX], "importance": values, "low": values / 2, "high": values,
        "seed_importance": values[::-1], "cluster": cluster, "categories": [*CATEGORIES.values()],
    })  # fmt: skip
    groups = features.groupby("cluster", sort=False)
    clusters = groups.agg(stressors=("stressor", ", ".join), importance=("importance", "max")).reset_index()
    clusters = clusters.assign(low=0.0, high=100.0, permutation=0.0)
    category = pd.DataFrame(
        {"category": ["Mem"], "importance": [100.0], "low": [50.0], "high": [100.0], "permutation": [1.0]}
    )
    leaders = () if reasons else leaders
    trust = Trust(20, 8, 0.9, 0.05, 0.6, leaders, 0.95, "importance", 0.005, tuple(reasons), ())
    return ProfileBars("p", Reported("app", features, clusters, category, trust))


def drawn(macro, *pieces):
    """Return what a macro of the page makes of the pieces."""
    return str(getattr(template_environment().get_template("irup.html").module, macro)(*pieces))


def test_a_trusted_profile_names_the_leading_stressors_with_colours():
    shown = profile()
    assert shown.title == "app depends on cache"
    both = profile(leaders=("cache", "zero"))
    assert both.title == "app depends on cache and zero; their order is uncertain"
    assert [bar.name for bar in shown.top] == ["cache", "zero", "hsearch", "cpu", "vm"]
    assert (shown.rest, shown.faint) == ([], ["nop"])
    assert (shown.top[2].categories, shown.top[0].interval) == (("CPU", "Cache", "Mem"), "50 to 100")
    text = drawn("profile", shown)
    assert "Not enough diversity" not in text
    assert '<s class="c-CPU"></s><s class="c-Cache"></s><s class="c-Mem"></s>' in text
    # stressors among which importance is divided are mentioned
    assert profile(cluster=[0, 1, 0, 2, 3, 4]).clusters == ["cache, hsearch (total importance 100)"]


def test_an_untrusted_ranking_has_a_banner_and_no_colours():
    shown = profile(reasons=[REASON])
    assert shown.title == "app: these machines do not show which resources it depends on"
    text = drawn("profile", shown)
    places = [text.index(part) for part in ("Not enough diversity", REASON, "<details>", "cache")]
    assert places == sorted(places)
    assert 'class="profile untrusted"' in text
    assert "c-Cache" not in text


@pytest.mark.parametrize(
    ("moved", "reasons", "title"),
    [
        (True, (), "before against after: cache, zero differ significantly"),
        (False, (), "before against after: no stressor differs significantly"),
        (True, (REASON,), "before against after: these machines do not show what changed"),
    ],
)
def test_title_of_a_difference_names_the_changed_stressors(moved, reasons, title):
    columns = ["stressor", "importance_a", "importance_b", "p_value", "moved", "change"]
    rows = [("cache", 100, 3, 0.01, moved, -97), ("zero", 10, 100, 0.02, moved, 90)]
    features = pd.DataFrame(rows, columns=columns)
    found = ProfileDifference(
        "before", "after", True, 20, features, features.iloc[:0], "cache", 10.0, tuple(reasons)
    )
    assert DifferenceBars("d", found).title == title
    text = drawn("difference", DifferenceBars("d", found))
    assert (">significant</td>" in text) == (moved and not reasons)
    assert ("Not enough diversity" in text) == bool(reasons)
    assert "stops at the first change of more than 10 points, that of cache, and calls the" in text


def test_box_chart_names_the_stressor_with_the_longest_tail():
    scores = pd.DataFrame({f"s{number:02}": [-number / 10, 0.0, number / 10] for number in range(50)})
    chart = charts.boxes_chart("b", scores, "stressor")
    assert chart.title.startswith("s49 has the most extreme value: 4.9 standard deviations")
    assert "Drawn: the 45 of 50 stressors" in chart.note
    assert "s05" in chart.svg
    assert "s04" not in chart.svg


def test_correlated_stressors_are_counted_and_constant_ones_left_out():
    x = np.arange(5.0)
    rates = pd.DataFrame({"a": x, "b": -2 * x, "c": [1.0, -2, 3, -2, 1], "still": 1.0})
    chart = charts.correlation_chart("c", rates, "all machines")
    assert chart.title.startswith(f"33{SPACE}% of the pairs of stressors are strongly correlated")
    assert "between 3 stressors" in chart.alt_text
    assert charts.correlation_chart("c", rates[["a", "still"]], "all machines") is None


def test_series_of_applications_are_found_by_trailing_numbers():
    names = [f"stream-nadds-add-{number}" for number in (30, 1, 2, 10)] + ["x-1", "x-2", "hpccg"]
    targets = pd.DataFrame({
        "machine": "a", "application": names, "metric": "MB/s",
        "value": [40.0, 100.0, 90.0, 60.0, 1.0, 900.0, 7.0],
    })  # fmt: skip
    elsewhere = targets.iloc[[0]].assign(machine="b", value=9000.0)
    chart = charts.series_chart(pd.concat([targets, elsewhere]))
    assert "the 1 machine that ran every number" in chart.note
    assert chart.title == f"stream-nadds-add changes most: \u221260{SPACE}% on average from 1 to 30"
    assert charts.series_chart(targets.head(3)) is None


def test_series_that_no_machine_ran_whole_are_noted():
    names = ["add-1", "add-2", "add-3", "add-4", "copy-1", "copy-2", "copy-3", "copy-4"]
    targets = pd.DataFrame({
        "machine": ["a"] * 3 + ["b"] * 5, "application": names, "metric": "MB/s", "value": range(1, 9),
    })  # fmt: skip
    note = "Means over 2 machines, none of which ran every number of add; bars are one standard deviation."
    assert charts.series_chart(targets).note == note


def worst_predictions(values, predicted, folds=None, applications="app", entry="ensemble"):
    """Return the worst predictions for one machine per value; each CPU model has its own fold by default."""
    machines = [f"m{number:02}" for number in range(len(values))]
    rows = pd.DataFrame({
        "application": applications, "entry": entry, "machine": machines, "cpu_model": machines,
        "fold": range(len(values)) if folds is None else folds, "value": values, "predicted": predicted,
    })  # fmt: skip
    metrics = pd.Series("seconds", index=np.unique(rows["application"]))
    return WorstPredictions.from_predictions(rows, metrics)


def test_the_twenty_largest_error_factors_come_in_descending_order():
    factors = 1 + np.arange(1, 31) / 10
    # too high and too low by the same factor count equally
    worst = worst_predictions(np.full(30, 5.0), 5 * factors ** np.tile([1, -1], 15))
    assert [case.machine for case in worst.cases] == [f"m{number:02}" for number in range(29, 9, -1)]
    assert [case.error_factor for case in worst.cases[:2]] == pytest.approx([4.0, 3.9])
    assert "factors of 2.1 to 4. 10 of these predictions are too high, 10 too low" in worst.chart.title
    assert worst_predictions([1.0], [2.0], entry="forest") is None


@pytest.mark.parametrize(
    ("measured", "predicted", "excess"),
    [
        (1.0, 3.0, 1.0),  # half of the smallest training value
        (5.0, 3.0, 0.25),
        (1.0, 0.5, 0.0),  # the error is not towards the range
        (5.0, 9.0, 0.0),
        (3.0, 9.0, 0.0),
    ],
)
def test_only_errors_towards_the_training_range_are_undecidable(measured, predicted, excess):
    # the first two machines are in one fold, so the second is no training data of the first
    values = [measured, measured, 2.0, 4.0]
    worst = worst_predictions(values, [predicted, measured, 2.0, 4.0], folds=[0, 0, 1, 2])
    assert worst.cases[0].excess == pytest.approx(excess)
    assert ("1 app *" in worst.chart.svg) == (excess > 0)


def test_a_range_of_other_applications_does_not_count():
    worst = worst_predictions([1.0, 2.0, 0.1], [1.5, 2.0, 0.1], applications=["a", "a", "b"])
    assert (worst.cases[0].smallest, worst.cases[0].largest) == (2.0, 2.0)
    # nothing is known of an application without other folds
    assert [case.excess for case in worst.cases if case.application == "b"] == [0.0]


def test_causes_of_large_factors_need_a_significant_excess():
    applications, values = np.repeat([*"abcdefghij"], 20), np.ones(200)
    for is_wrong, told in (
        (applications == "c", f'corrected for 410 tests): application "c" (20 of 20; 10.0{SPACE}% of all).'),
        (np.arange(200) % 10 == 0, "No application, no machine and no CPU model is significantly more"),
    ):
        assert told in worst_predictions(values, 1 + is_wrong, applications=applications).causes
