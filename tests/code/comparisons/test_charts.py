"""Charts of reports, and the worst mistakes that they show."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from data.comparisons.tables import ComparisonTables
from data.paths import FamilyPaths
from serving.comparisons import charts
from serving.comparisons.mistakes import (
    causes_of_mistakes,
    describe_measurements,
    is_undecidable,
    mistake_chart,
    worst_mistakes,
)
from serving.comparisons.page import Node, nodes_of, tree_chart
from serving.reports.chart_marks import Bars, Boxes, Heat, Line, box_percentiles
from serving.reports.charts import Words, inline_svg, percent, plain_number, styled_figure, with_noun
from serving.reports.evaluation_files import Judged, Split
from serving.reports.panels import Axis, Panel, draw_chart
from serving.reports.rendering import reword_text
from serving.reports.separation import Leaders, difference_predicate
from tests.comparison_rows import compared, result
from training.comparisons.stored import Card, TrainedModel
from training.evaluation.paired_bootstrap import Difference

SPACE, DASH = "\N{NO-BREAK SPACE}", "\N{EN DASH}"


def held_out(probabilities, statuses):
    """Make held-out verdicts at the threshold 0.5."""
    frame = pd.DataFrame({"probability": probabilities, "status": statuses})
    names = [f"c{number:02}" for number in range(len(frame))]
    frame = frame.assign(comparison_id=names, split="grouped", repeat=0, fold=np.arange(len(frame)) % 2)
    called = np.where(frame["probability"] >= 0.5, "fail", "pass")
    return frame.assign(entry="m", kind="model", threshold=0.5, verdict=called)


@pytest.mark.parametrize(
    ("write", "number", "text"),
    [
        (percent, 0.936, f"93.6{SPACE}%"), (percent, -0.05, f"\u22125.0{SPACE}%"),
        (percent, 1, f"100.0{SPACE}%"), (percent, np.nan, DASH), (percent, None, DASH),
        (plain_number, 0.0, "0"), (plain_number, 0.01234567, "0.01235"), (plain_number, 99999, "99,999"),
        (plain_number, -499.51, "\u2212499.5"), (plain_number, 2.5e9, "2,500,000,000"),
        (plain_number, 5.2e-7, "0.00000052"), (plain_number, np.nan, DASH),
    ],
)  # fmt: skip
def test_numbers_have_four_digits_that_count_and_no_exponent(write, number, text):
    assert write(number) == text


def test_words_of_a_page_agree_with_counts_and_hide_identifiers():
    counted = [with_noun(number, "pass", "passes") for number in (0, 1, 12000)]
    assert counted == ["0 passes", "1 pass", "12,000 passes"]
    worded = reword_text("user_usec=-6.95567e+06 (seed 000)")
    assert worded == "user_usec=\u22126,955,670 (the scheduler thesis)"
    for unchanged in ("ale+12 and 1e5x", "below 1e999"):
        assert reword_text(unchanged) == unchanged


def test_charts_are_deterministic_and_use_colours_of_the_page():
    def draw(left):
        with styled_figure(3, 2) as figure:
            figure.set_layout_engine("none")
            figure.add_axes((left, 0.2, 0.7, 0.7)).plot([0, 1, 2], [1, 3, 2], marker="o")
            return inline_svg(figure, "name", 'says "so" & <more>')

    first = draw(0.2)
    # the last bits of coordinates change no byte
    assert first == draw(0.2) == draw(0.2 + 1e-14)
    assert re.match(r'<svg width="\d+" viewBox=', first)
    said = ('aria-label="says &#34;so&#34; &amp; &lt;more&gt;"', "var(--ink)", "http")
    assert [text in first for text in said] == [True, True, False]
    assert all(found.startswith("name-") for found in re.findall(r'\bid="([^"]+)"', first))


def chart_of(mark, x=None, y=None):
    panel = Panel([mark], x or Axis("x"), y or Axis("y"))
    return draw_chart(Words("n", "It rises", "Chart of a mark"), [panel], (4, 3))


def test_tooltips_of_chart_marks_show_value_and_position():
    def told(*parts):
        return sorted(re.findall(r"<title>(.*?)</title>", chart_of(*parts).svg))

    shares, threads = Axis("accuracy (% right)", percent=True), Axis("threads (number)")
    line = told(Line("forest", [1], [0.5], band=[0.1]), threads, shares)
    assert line == [f"forest: threads 1, accuracy 50.0{SPACE}%, \u00b1 10.0{SPACE}%"]
    bars = told(Bars([1.5, 0.0]), Axis("seconds"), Axis("task", ["a", "b & c"]))
    assert bars == ["a: seconds 1.5", "b &amp; c: seconds 0"]
    heat = Heat.with_robust_range(np.array([[1.0, 1.25], [np.nan, 0.9]]), "impact (ratio)", 1.0)
    cells = told(heat, Axis("beside", ["x", "y"]), Axis("task", ["a", "b"]))
    assert cells == ["x, a: impact 1", "y, a: impact 1.25", "y, b: impact 0.9"]


def test_charts_stay_readable_with_extremes_crowds_and_missing_values():
    # a few extremes do not fade other colours
    values = np.append(np.linspace(0.98, 1.02, 99), 9.0)
    assert Heat.with_robust_range(values, "impact", 1.0).reach == pytest.approx(0.019, abs=0.002)
    crowded = chart_of(Bars(range(60)), y=Axis("stressor", [f"s{number}" for number in range(60)])).svg
    told = [text in crowded for text in ("stressor (one in 2 is named)", ">s58<", ">s59<")]
    assert told == [True, True, False]
    whole, gap = box_percentiles([1.0, 2.0, 3.0, 4.0, 5.0]), np.full(5, np.nan)
    assert whole.tolist() == [1, 2, 3, 4, 5]
    both, one = (chart_of(Boxes(fives)).svg.count("<path") for fives in ([whole, whole], [gap, whole]))
    assert one < both


def test_wide_charts_also_have_a_layout_for_narrow_screens():
    words, line = Words("n", "It rises", "Chart"), Panel([Line("one", [1, 2], [1, 2])], Axis("x"), Axis("y"))
    wide = draw_chart(words, [line], (8.4, 3))
    assert 'id="n-narrow-' in wide.narrow
    assert not set(re.findall(r'id="([^"]+)"', wide.svg)) & set(re.findall(r'id="([^"]+)"', wide.narrow))
    assert not draw_chart(words, [line], (8.4, 3), narrows=False).narrow
    chart = draw_chart(words, [line], (4, 3))
    assert chart.fits
    # the alternative text states subject and finding
    assert chart.alt_text == "Chart. It rises."
    assert 'aria-label="Chart. It rises."' in chart.svg


def test_entries_of_a_kind_are_ranked_by_their_pooled_accuracy():
    scores = ("false_negative_rate", "false_positive_rate", "precision", "recall", "f1")
    told = {"a": ("model", 0.7), "b": ("rule", 0.9), "c": ("model", 0.8), "d": ("model", 0.8)}
    entries = {
        name: {**{score: {} for score in scores}, "kind": kind, "balanced_accuracy": {"pooled": accuracy}}
        for name, (kind, accuracy) in told.items()
    }
    split = Split[Judged].model_validate({"scheme": "s", "folds": 2, "entries": entries})
    assert [name for name, _ in split.ranked()] == ["b", "c", "d", "a"]
    assert [name for name, _ in split.ranked("model")] == ["c", "d", "a"]
    assert split.best_entry("opponent") is None


def test_a_winner_is_named_only_with_a_significant_lead():
    folds = pd.DataFrame({
        "a": [0.90, 0.91, 0.92, 0.90], "b": [0.89, 0.92, 0.90, 0.91], "c": [0.70, 0.72, 0.71, 0.71],
    })  # fmt: skip
    assert Leaders.from_scores(folds) == Leaders("a", ("b",))
    assert Leaders.from_scores(folds[["b", "c"]]) == Leaders("b", ())
    assert difference_predicate(Difference(0.1, 0.01, 0.2, 0.95)) == "is above (by +0.010 to +0.200)"


def test_nearest_neighbour_chart_names_best_k_and_its_plateau():
    accuracy = np.repeat([0.80, 0.899, 0.90, 0.85], 4) + [-0.01, 0.01, -0.01, 0.01] * 4
    curves = pd.DataFrame({"parameter": np.repeat([1, 3, 5, 7], 4), "fold": [0, 1, 2, 3] * 4})
    curves = curves.assign(curve="knn-uniform", accuracy=accuracy)
    curves.loc[curves["parameter"] == 3, "accuracy"] += [-0.003, 0.003, 0.003, -0.003]
    assert charts.parameter_chart("figure-6-6", curves, 0.7).title == (
        f"Best with equally weighted neighbours at k = 5: accuracy 90.0{SPACE}%; "
        "at k = 3, accuracy is not significantly lower"
    )
    assert charts.parameter_chart("figure-6-8", curves, 0.7) is None


def test_model_chart_title_names_the_best_of_both_splits():
    good = held_out([0.9, 0.1] * 2, ["fail", "pass"] * 2).assign(entry="logistic", split="stratified")
    # on each of the two folds one of two is right
    bad = held_out([0.9, 0.1] * 2, ["fail", "pass", "pass", "fail"])
    parts = [good, bad.assign(entry="xgboost", split="stratified"), bad.assign(entry="logistic")]
    chart = charts.models_chart(pd.concat(parts), 0.5)
    assert chart.title == (
        f"logistic has the highest median accuracy on stratified folds: 100.0{SPACE}%, "
        f"50.0{SPACE}% on held-out operations"
    )
    assert "another data set" in chart.note


def test_a_curve_without_rules_compares_no_probabilities_of_different_folds():
    alone = held_out([0.9, 0.3, 0.8, 0.2], ["fail", "fail", "pass", "pass"])
    chart = charts.precision_recall_chart("pr", alone, alone.head(0))
    assert chart.title == "m has the best curve (average precision 1.000, mean over folds)"
    assert "mean precision over the folds" in chart.note
    assert charts.precision_recall_chart("pr", alone[alone["status"] == "pass"], alone) is None


def test_the_chart_of_vectors_draws_a_sample_of_both_labels():
    columns = ["medians_min", "mins_min", "q1s_min", "q3s_min"]
    features = pd.DataFrame(np.random.default_rng(0).normal(size=(2010, 4)), columns=columns)
    features = features.assign(status=["fail"] * 10 + ["pass"] * 2000, comparison_id="c")
    assert charts.vectors_chart("v", features, columns).note.startswith(
        "The chart shows 10 of 10 comparisons labelled fail and 400 of 2,000 labelled pass; "
    )
    assert charts.vectors_chart("v", features[features["status"] == "pass"], columns) is None
    assert charts.vectors_chart("v", features, columns[:2]) is None


def tree(columns, fails, feature, reference):
    steps = [("scale", StandardScaler()), ("model", DecisionTreeClassifier(random_state=0))]
    pipeline = Pipeline(steps).fit(np.array(columns)[:, None], fails)
    return TrainedModel(pipeline, Card("decision-tree", (feature,), 0.5, {}, {feature: reference}, "", 1))


def test_a_tree_is_read_in_the_units_of_its_features():
    model = tree([-0.5, -0.3, 0.1, 0.3], [1, 1, 0, 0], "medians_min", 0.2)
    root = nodes_of(model, frozenset(["medians_min"]))
    first = f"medians_min \u2264 \u22120.1 (\u22121.0{SPACE}%)"
    assert root.question == first
    assert root.branches == (Node("", 2, 1.0), Node("", 2, 0.0))
    assert tree_chart("t", root).title == (
        f"The first split is {first}: 100{SPACE}% of the vectors that satisfy it are labelled fail, "
        f"0{SPACE}% of the others"
    )


def test_tree_nodes_below_depth_three_are_counted_only():
    model = tree(np.arange(12.0), [0, 1] * 6, "x", 5.5)
    root = nodes_of(model, frozenset())

    def drawn(node):
        return 1 + node.below + sum(drawn(branch) for branch in node.branches)

    assert root.depth == 3
    assert drawn(root) == model.model[-1].tree_.node_count
    assert " below" in tree_chart("t", root).svg


def tables(number, target=1.0, stats=(None, None, None), **of_each):
    """Make comparisons of one baseline run with one target run, with further columns per operation."""
    names = [f"c{row:02}" for row in range(number)]
    results = [
        result(name, order, base * factor, stat=stat, **{key: of_each[key][row] for key in of_each})
        for row, name in enumerate(names)
        for order, factor in enumerate((1.0, target))
        for base, stat in zip((0.99, 1.0, 1.01), stats, strict=True)
    ]
    return ComparisonTables.from_rows(results, [compared(name, name) for name in names], labels(names))


def labels(names):
    return [{"comparison_id": name, "status": "pass", "labelled_by": "ann"} for name in names]


@pytest.mark.parametrize(
    ("misses", "alarms", "shown"), [(15, 15, (10, 10)), (4, 25, (4, 16)), (3, 2, (3, 2))]
)
def test_twenty_mistakes_are_shown_ten_of_each_kind_if_possible(misses, alarms, shown):
    probabilities = [*np.linspace(0.4, 0.1, misses), *np.linspace(0.6, 0.99, alarms), 0.9, 0.1]
    statuses = ["fail"] * misses + ["pass"] * alarms + ["fail", "pass"]
    mistakes = worst_mistakes(held_out(probabilities, statuses), tables(len(statuses)), 0.005)
    found = [mistake.label for mistake in mistakes]
    assert (found.count("fail"), found.count("pass")) == shown
    confidence = [abs(mistake.probability - 0.5) for mistake in mistakes]
    assert confidence == sorted(confidence, reverse=True)
    assert max(confidence) == pytest.approx(np.abs(np.array(probabilities[:-2]) - 0.5).max())


@pytest.mark.parametrize(
    ("label", "change", "usual", "is_marked"),
    [
        ("fail", [0.03, -0.004], 0.01, True),
        ("fail", [0.03, -0.005], 0.01, False),  # the minimum effect size is reached
        ("pass", [0.03, -0.021], 0.01, True),
        ("pass", [-0.019, -0.02], 0.01, False),  # within twice the usual difference
        ("fail", [0.03, np.nan], 0.01, False),
        ("fail", [], 0.01, False),
        # the smaller limit counts for misses, the larger for false alarms
        ("fail", [-0.003], 0.001, False),
        ("fail", [-0.003], 0.002, True),
        ("pass", [-0.003], 0.001, False),
    ],
)
def test_medians_that_contradict_the_label_are_marked(label, change, usual, is_marked):
    assert is_undecidable(label, np.array(change), np.full(len(change), usual), 0.005) == is_marked


def test_common_causes_of_mistakes_need_a_significant_excess():
    verdicts = held_out([0.9] * 6 + [0.1] * 44, ["pass"] * 50)
    rare = tables(50, unit=["ms"] * 6 + ["s"] * 44)
    mistakes = worst_mistakes(verdicts, rare, 0.005)
    assert causes_of_mistakes(mistakes, verdicts, rare) == (
        "Significantly more frequent among these 6 comparisons than among all 50 (one-sided hypergeometric "
        f'test at 5{SPACE}%, corrected for 2 tests): unit "ms" (6 of 6; 12.0{SPACE}% of all).'
    )
    even = tables(50, unit=["ms", "s"] * 25)
    assert causes_of_mistakes(mistakes, verdicts, even).startswith("No unit is significantly more")


def test_earlier_builds_are_counted_before_the_baseline():
    verdicts = held_out([0.9] * 5 + [0.1] * 25, ["pass"] * 30)
    names = verdicts["comparison_id"].tolist()
    results = [result(name, order, 1.0) for name in names for order in range(6)]
    ends = [(0, 1) if row < 5 else (4, 5) for row in range(30)]
    rows = [
        compared(name, name, (old,) * 2, (new,) * 2) for name, (old, new) in zip(names, ends, strict=True)
    ]
    found = ComparisonTables.from_rows(results, rows, labels(names))
    causes = causes_of_mistakes(worst_mistakes(verdicts, found, 0.005), verdicts, found)
    assert 'number of earlier builds "0" (5 of 5; ' in causes


@pytest.mark.parametrize(("better", "word"), [("lower", "worse"), ("higher", "better")])
@pytest.mark.parametrize(
    ("stats", "samples", "quartiles"),
    [([None] * 3, [0.99, 1, 1.01], [0.995, 1.005]), (["q1", "median", "q3"], [], [0.99, 1.01])],
)
def test_a_mistake_shows_its_direction_and_only_given_samples(better, word, stats, samples, quartiles):
    measured = tables(1, 1.1, stats, better=[better], threads=[2])
    (mistake,) = worst_mistakes(held_out([0.4], ["fail"]), measured, 0.005)
    title = f"Missed: c00, median 10.0{SPACE}% {word} at 2 threads, fail probability 0.400"
    assert mistake_chart(mistake).title == title
    assert mistake.is_undecidable == (word == "better")
    pair = mistake.pairs[0]
    assert (pair.baseline_median, pair.samples[0].tolist()) == (1, samples)
    assert pair.boxes[0][1:4] == pytest.approx([quartiles[0], 1, quartiles[1]])


def test_mistakes_name_their_annotators_and_can_be_limited():
    verdicts = held_out([0.4, 0.95, 0.9], ["fail", "pass", "fail"])
    people = [{"comparison_id": "c00", "status": "fail", "labelled_by": who} for who in ("ann", "bob", "ann")]
    measured = replace(tables(3), labels=ComparisonTables.from_rows([], [], people).labels)
    mistakes = worst_mistakes(verdicts, measured, 0.005)
    assert [(one.comparison_id, one.labelled_by) for one in mistakes] == [("c01", DASH), ("c00", "ann, bob")]
    assert len(worst_mistakes(verdicts, measured, 0.005, max_mistakes=1)) == 1
    assert worst_mistakes(verdicts.iloc[2:], measured, 0.005) == []


def test_invalid_comparisons_are_described_by_what_makes_them_invalid(tmp_path):
    measured = tables(3, 1.1, better=["lower"] * 3)
    results = measured.results[measured.results["operation"] != "c02"].copy()
    results.loc[results["operation"] == "c01", "value"] -= 0.99
    replace(measured, results=results).write(FamilyPaths("comparisons", tmp_path).interim)
    described = describe_measurements(tmp_path, ["c00", "c01", "c02", "unknown"])
    assert described.pop("c00")[0] == "median 10.0 % slower"
    assert described == {
        "c01": ("cannot be judged: threads 1: the baseline holds a value that is not above 0: 0",),
        "c02": ("cannot be judged: has no measurement",),
    }
