import numpy as np
import pytest

from data.matrices.tables import MatrixTables
from features.matrices import forms
from features.matrices.forms import contrast_pairs, training_statistics
from features.matrices.projection import Projection
from tests.data.matrices.rows import run
from tests.matrix_pairs import METRICS, MOVED, pairs

MOST = forms.MOST_PER_CENT


def odd_target(tables, name="g0 c0 v1"):
    """Tell for each run whether it is of the target of this pair."""
    return (tables.runs["pair_id"] == name) & (tables.runs["side"] == "target")


@pytest.mark.parametrize(
    ("form", "baseline", "target", "expected"),
    [
        (forms.flatten_runs, [1.0, np.nan, 3.0], [9.0], [[1.0], [3.0], [3.0], [9.0]]),
        # target runs take the baseline runs in turn
        (forms.concatenate_runs, [1.0, 2.0], [7.0, 8.0, 9.0], [[1, 7], [2, 8], [1, 9]]),
        (forms.subtract_baselines, [2.0, 0, 4, 0], [3.0, 0, np.nan, 1e300], [[50], [0], [0], [MOST]]),
    ],
)
def test_forms_of_a_pair_fill_gaps(form, baseline, target, expected):
    runs = [run("sort 1", "baseline", n, faults=v, abnormal=None) for n, v in enumerate(baseline)]
    runs += [run("sort 1", "target", n, faults=v, abnormal=True) for n, v in enumerate(target)]
    tables = MatrixTables.from_rows(runs)
    rows = form(tables, training_statistics(tables, ["faults"]))
    assert rows.x.tolist() == expected
    assert rows.y.tolist() == [0] * (len(expected) - len(target)) + [1] * len(target)
    if form is forms.concatenate_runs:
        assert (rows.columns, rows.blocks) == (("baseline faults", "target faults"), 2)


def test_contrasts_are_large_only_for_moved_metrics_in_any_unit():
    tables = pairs()
    names = tables.raw_metrics
    learned = training_statistics(tables, names)
    rows = contrast_pairs(tables, learned)
    moved = np.abs(rows.x[rows.y == 1][:, : len(MOVED)])
    still = np.abs(rows.x[rows.y == 0][:, :METRICS])
    assert moved.min() > np.quantile(still, 0.99)
    assert np.sinh(still).std() == pytest.approx(0.6, abs=0.4)
    assert len(rows.y) == tables.runs["pair_id"].nunique()
    bigger = tables.with_runs(tables.runs.assign(**{name: tables.runs[name] * 1000 for name in names}))
    in_other_units = contrast_pairs(bigger, training_statistics(bigger, names))
    np.testing.assert_allclose(in_other_units.x, rows.x, atol=1e-6)
    one = tables.select_runs((tables.runs["pair_id"] == rows.about["pair_id"][7]).to_numpy())
    np.testing.assert_array_equal(contrast_pairs(one, learned).x[0], rows.x[7])


@pytest.mark.parametrize("form", forms.FORMS)
def test_every_form_is_finite_for_degenerate_values(form):
    tables = pairs(cases=3)
    runs = tables.runs
    runs.loc[::3, "m0"], runs.loc[::5, "m1"] = np.nan, np.inf
    runs["m2"], runs["m3"] = np.nan, 5.0
    rows = forms.FORMS[form](tables, training_statistics(tables, tables.raw_metrics))
    assert np.isfinite(rows.x).all()
    assert rows.x.shape[1] == len(rows.columns)
    projection = Projection.from_rows(rows, 4)
    assert np.isfinite(projection.project_rows(rows)).all()


def test_a_first_rare_event_is_no_huge_difference():
    tables = pairs(cases=3)
    runs = tables.runs
    runs["m4"] = 0.0
    learned = training_statistics(tables, tables.raw_metrics)
    runs.loc[odd_target(tables), "m4"] = 1.0
    rows = contrast_pairs(tables.with_runs(runs), learned)
    found = np.sinh(rows.x[:, rows.columns.index("m4")])
    assert 2 < found.max() < 4
    assert (found == 0).sum() == len(found) - 1


def test_a_projection_keeps_the_directions_of_most_variance():
    tables = pairs()
    rows = forms.flatten_runs(tables, training_statistics(tables, tables.raw_metrics))
    projection = Projection.from_rows(rows, 3)
    turned = projection.project_rows(rows)
    np.testing.assert_allclose(np.cov(turned.T), np.diag(np.var(turned, axis=0, ddof=1)), atol=1e-9)
    plain = projection.first_components(None).project_rows(rows)
    np.testing.assert_allclose(plain, (rows.x - rows.x.mean(axis=0)) / rows.x.std(axis=0), atol=1e-9)
    np.testing.assert_allclose(plain @ projection.axes.T, turned, atol=1e-9)
    sides = forms.concatenate_runs(tables, training_statistics(tables, tables.raw_metrics))
    assert Projection.from_rows(sides, 3).project_rows(sides).shape[1] == 6


def test_joined_rows_are_contrasts_and_medians_of_both_sides():
    tables = pairs(cases=3)
    runs = tables.runs
    runs.loc[odd_target(tables), "m2"] = np.nan
    # a pair without values of a side is left out
    runs.loc[odd_target(tables, "g1 c1 v2"), tables.raw_metrics] = np.nan
    learned = training_statistics(tables, tables.raw_metrics)
    rows, contrasts = forms.join_forms(tables, learned), contrast_pairs(tables, learned)
    names, metrics = rows.about["pair_id"].tolist(), list(learned.metrics)
    assert {*runs["pair_id"]} - {*names} == {"g1 c1 v2"}
    assert len(rows.x) == len(rows.y) == len(names) == runs["pair_id"].nunique() - 1
    parts = forms.split_forms(rows.x)
    np.testing.assert_array_equal(parts[0], contrasts.x)
    assert rows.columns[: parts[0].shape[1]] == contrasts.columns
    baseline, target, difference = np.split(parts[1], 3, axis=1)
    medians = runs.groupby(["side", "pair_id"])[metrics].median()
    medians = medians.fillna(dict(zip(metrics, learned.middles, strict=True)))
    np.testing.assert_allclose(baseline, medians.loc["baseline"].loc[names])
    np.testing.assert_allclose(target, medians.loc["target"].loc[names])
    is_gap = np.zeros(difference.shape, bool)
    is_gap[names.index("g0 c0 v1"), metrics.index("m2")] = True
    np.testing.assert_allclose(difference, np.where(is_gap, 0, target - baseline))
