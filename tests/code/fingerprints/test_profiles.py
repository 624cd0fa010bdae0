import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.linalg import sqrtm
from sklearn.ensemble import ExtraTreesRegressor

from data.errors import InputError
from data.fingerprints.params import Profiling, TrustLimits
from features.fingerprints.matrix import PLACES, FingerprintTable
from tests.fingerprint_machines import application, machines
from training.evaluation.metrics import half_width
from training.fingerprints.differences import check_claims
from training.fingerprints.importance import (
    EXTRA_TREES,
    SHRINKAGE,
    HeldOut,
    car_operator,
    car_scores,
    cpu_model_folds,
    predict_by_extra_trees,
    seed_shares,
)
from training.fingerprints.prediction import Forecast, forecast_application
from training.fingerprints.profiles import ENOUGH, infer_profile, mean_overlap, resample_weights
from training.fingerprints.stages import evaluate_stage
from training.fingerprints.trust import Chance, Evidence, Lead, choose_lead, judge_profile

QUICK = Profiling(n_bootstrap=80)


def naive_scores(x, speed):
    """R^(-1/2) r, a matrix at a time (Zuber and Strimmer 2011)."""
    columns = np.log(x)
    among = (1 - SHRINKAGE) * np.corrcoef(columns, rowvar=False) + SHRINKAGE * np.eye(columns.shape[1])
    with_speed = [np.corrcoef(column, speed)[0, 1] for column in columns.T]
    return np.linalg.inv(sqrtm(among)) @ with_speed


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_scores_match_the_definition_with_row_weights(better):
    measured = application(machines(20), {"cache": 1, "vm": 0.5}, better=better)
    again = np.random.default_rng(1).integers(0, 4, (3, 20)).astype(float)
    for scores, counts in zip(car_scores(measured, again), again, strict=True):
        rows = measured.select_rows(np.repeat(np.arange(20), counts.astype(int)))
        assert scores == pytest.approx(naive_scores(rows.x, rows.log_speed), abs=1e-9)
    alone = car_scores(measured)[0]
    assert alone[0] > 0
    speed = (measured.log_speed - measured.log_speed.mean()) / measured.log_speed.std()
    assert car_operator(np.log(measured.x)) @ speed == pytest.approx(alone, abs=1e-9)


def test_extra_trees_equal_those_of_scikit_learn():
    measured, rows = application(machines(20), {"cache": 1, "vm": 0.5}), np.arange(20)
    logs = np.log(measured.x)
    forest = ExtraTreesRegressor(EXTRA_TREES, max_features=0.5, min_samples_leaf=2, random_state=3)
    expected = forest.fit(logs[rows[5:]], measured.log_speed[rows[5:]]).predict(logs[:5])
    np.testing.assert_array_equal(predict_by_extra_trees(measured, rows[5:], logs, logs[:5], 3), expected)


def test_correlated_stressors_share_importance_unlike_in_the_thesis():
    rates, names, models = machines(30, alike=0)
    twins = rates.copy()
    twins[:, 1] = 7 * rates[:, 0]
    ours = car_scores(application((twins, names, models), {"cache": 1}))[0]
    assert ours[0] == pytest.approx(ours[1])
    assert ours[0] > 3 * np.abs(ours[2:]).max()
    boosted = seed_shares(application((twins, names, models), {"cache": 1}), 0, boosting="xgboost")
    assert boosted[0] > 0.5
    assert boosted[1] == 0


def test_constant_rates_or_performances_explain_nothing():
    rates, names, models = machines(12)
    rates[:, 2] = 5.0
    assert car_scores(application((rates, names, models), {"cache": 1}))[0][2] == pytest.approx(0)
    flat = application((rates, names, models), {}, noise=0)
    with pytest.raises(InputError, match="1 different values on 12 machines"):
        infer_profile(flat, QUICK, 0)


def test_a_machine_has_equal_bootstrap_weights_in_all_applications():
    names = np.array(["a", "a", "b", "c", "d", "e", "f", "g"])
    counts = resample_weights(names, 500, 3)
    assert (counts[:, 0] == counts[:, 1]).all()
    assert counts.mean() == pytest.approx(1, abs=0.1)
    assert (resample_weights(names[2:], 500, 3)[:, 0] == counts[:, 2]).mean() > 0.9
    assert (resample_weights(names, 500, 4) != counts).any()
    few = resample_weights(names[:4], 500, 3)
    assert ((few[:, 1:] > 0).sum(axis=1) >= ENOUGH).all()


def test_thesis_profile_is_a_regression_on_z_scores():
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.preprocessing import StandardScaler

    measured = application(machines(15), {"cache": 1}, better="lower")
    plain = GradientBoostingRegressor(n_estimators=1000, max_depth=4, learning_rate=0.01, random_state=9)
    plain.fit(StandardScaler().fit_transform(measured.x), measured.y)
    assert seed_shares(measured, 9) == pytest.approx(plain.feature_importances_, abs=1e-12)


def test_machines_of_one_cpu_model_are_held_out_together():
    measured = application(machines(30, cpus=7), {"cache": 1})
    for train, test in cpu_model_folds(measured.cpus):
        assert not set(measured.cpus[train]) & set(measured.cpus[test])
    table = forecast_application(Forecast(measured, ("forest", "median"), 0.9, "xgboost", 0))
    assert len(table.drop_duplicates(["entry", "cpu_model", "fold"])) == 2 * 7
    assert set(table.groupby("entry")["machine"].nunique()) == {30}


def test_held_out_performances_do_not_influence_their_prediction():
    measured = application(machines(20, cpus=5), {"cache": 1})
    changed = measured.y.copy()
    changed[measured.cpus == "cpu2"] *= 100
    task = Forecast(measured, ("ensemble", "seed"), 0.9, "xgboost", 0)
    other = Forecast(type(measured)(**{**vars(measured), "y": changed}), *list(vars(task).values())[1:])
    one, two = (forecast_application(each).query("cpu_model == 'cpu2'") for each in (task, other))
    assert one["predicted"].tolist() == two["predicted"].tolist()


def evidence(measured, settled=True, p_value=0.01, times=2.0, r2=0.9, error=0.1):
    """What a profile of three stressors is judged by; they are first, second and third."""
    leading = Lead("importance", (0,), 0.95 if settled else 0.6, settled, 1, times)
    closest = Chance(0, 0.5, 0.6, p_value)
    return Evidence(measured, "machines", leading, closest, HeldOut(r2, error, np.zeros(8)))


def said(given):
    found = judge_profile(given, 0.5, TrustLimits(), 0.025, 0)
    return list(found.reasons), list(found.unpredicted)


ENOUGH_MACHINES = application(machines(20, cpus=5), {"cache": 1})


def test_ranking_and_predictions_are_trusted_separately():
    assert said(evidence(ENOUGH_MACHINES)) == ([], [])
    ranking, predictions = said(evidence(ENOUGH_MACHINES, r2=0.4))
    assert not ranking
    assert predictions[0].startswith("R2 0.40 on held-out CPU models, 0.10 less than 0.5: ")
    ranking, predictions = said(evidence(ENOUGH_MACHINES, error=0.68))
    assert (ranking, predictions) == ([], ["median error 68.0% on held-out CPU models, more than 25%"])


@pytest.mark.parametrize(
    ("count", "cpus", "told"),
    [
        (14, 5, "14 machines, fewer than 15: 1 more are needed at least"),
        (15, 3, "3 CPU models, fewer than 5: 2 more are needed at least"),
    ],
)
def test_too_few_machines_are_reported_with_the_missing_number(count, cpus, told):
    few = application(machines(count, cpus=cpus), {"cache": 1})
    assert said(evidence(few)) == ([told], [told])


def test_reasons_state_the_shortfall_and_helpful_machines():
    measured = ENOUGH_MACHINES
    alike = np.corrcoef(np.log(measured.x[:, 0]), np.log(measured.x[:, 1]))[0, 1]
    rivals = (
        "cache comes first by importance in 60% of resamples, less than 90%; in the others, cpu is most "
        f"often ahead (correlation of their rates: {alike:.2f}): "
    )
    assert said(evidence(measured, settled=False))[0] == [
        rivals + "about 21 more machines on which cache and cpu differ are needed"
    ]
    assert said(evidence(measured, settled=False, times=50))[0] == [
        rivals + "only machines on which cache and cpu differ can decide their order"
    ]
    chance = (
        "no stressor correlates significantly: the largest is of cache, a correlation of 0.50, and chance "
        "alone reaches 0.60 (p 0.300, more than 0.025): about 10 more machines on which cache differs are "
        "needed to decide whether it is the cause"
    )
    assert said(evidence(measured, p_value=0.3))[0] == [chance]


CACHE, VM, ZERO = np.array([[0.6, 0.3, 0.1]]), np.array([[0.3, 0.6, 0.1]]), np.array([[0.1, 0.2, 0.7]])


def often(*rows):
    """Stack values, each as often as said; the first stands for all machines."""
    return np.concatenate([rows[0][0], *(np.repeat(row, times, axis=0) for row, times in rows)])


@pytest.mark.parametrize(
    ("shares", "related", "by", "leading"),
    [
        (often((CACHE, 10)), often((ZERO, 10)), "importance", (0,)),
        (often((CACHE, 6), (VM, 4)), often((ZERO, 10)), "importance", (0, 1)),
        (often((CACHE, 5), (ZERO, 5)), often((CACHE, 10)), "correlation", (0,)),
        (often((CACHE, 5), (ZERO, 5)), often((VM, 10)), "importance", None),
        (often((CACHE, 5), (ZERO, 5)), often((CACHE, 6), (ZERO, 4)), "correlation", None),
    ],
)
def test_leaders_are_the_smallest_group_reliably_ahead(shares, related, by, leading):
    found = choose_lead(shares, related, 0.9)
    assert (found.by, found.settled) == (by, leading is not None)
    assert found.columns == (leading or (0,))


def test_overlap_is_the_mean_over_all_pairs():
    tops = [frozenset({1, 2}), frozenset({1, 2}), frozenset({2, 3})]
    assert mean_overlap(tops) == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)


def test_half_width_is_the_conformal_quantile_of_errors():
    misses = np.array([-9.0, 1, 2, 3, -4, 5, 6, 7, 8])
    assert [half_width(misses, share) for share in (0.5, 0.8, 0.9, 0.99)] == [5, 8, 9, 9]


def made_claims(measured, other):
    found = {one.application: infer_profile(one, QUICK, 0) for one in (measured, other)}
    shares = {name: one.shares for name, one in found.items()}
    return check_claims(found, shares, QUICK, 0).set_index("claim")["verdict"].to_dict()


def test_claims_are_supported_refuted_or_left_undecided():
    many, few = machines(40), machines(10)
    loads = {"hpccg": {"stackmmap": 1, "cache": 1}, "redis-set": {"msync": 1, "nop": 1}}
    assert made_claims(*(application(many, leans, name=name) for name, leans in loads.items())) == {
        "hpccg depends on stackmmap and cache": "supported",
        "redis SET is memory intensive": "not supported",
    }
    assert set(
        made_claims(*(application(few, leans, name=name) for name, leans in loads.items())).values()
    ) == {"not enough diversity"}
    engines = [
        application(many, {leans: 1}, name=f"mariadb-{engine}-load")
        for engine, leans in (("innodb", "msync"), ("memory", "zero"))
    ]
    assert made_claims(*engines) == {
        "MariaDB's engines InnoDB and Memory have different profiles": "supported"
    }


def targets(values):
    rows = [
        {"application": name, "metric": "s", "better": "lower", "machine": f"m{number}", "repetition": 1,
         "value": float(value)}
        for name, column in values.items()
        for number, value in enumerate(column)
    ]  # fmt: skip
    return FingerprintTable(pd.DataFrame(), pd.DataFrame(rows))


def test_covering_applications_are_chosen_per_kind_without_duplicates():
    table = targets(
        {
            "web:a": [1, 2, 3, 5, 4, 6], "web:b": [2, 4, 6, 10, 8, 12], "web:c": [6, 1, 5, 2, 4, 3],
            "gb:a": [3, 1, 2, 9, 1], "gb:b": [1, 1, 9, 2],
        }
    )  # fmt: skip
    assert table.covering_applications(5) == ("gb:a", "gb:b", "web:a", "web:b", "web:c")
    assert table.covering_applications(4) == ("gb:a", "gb:b", "web:a", "web:c")
    assert table.covering_applications(3) == ("gb:a", "web:a", "web:c")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A directory with features, and the knobs that a test asks for."""
    measured = [
        application(machines(12, cpus=6), {leans: 1}, name=leans, better=better)
        for leans, better in (("cache", "lower"), ("vm", "higher"))
    ]
    x, names, models = machines(12, cpus=6)
    runs = pd.DataFrame({"machine": names, "repetition": 1, "cpu_model": models, "cores": 4.0})
    rows = [
        {"application": one.application, "metric": one.metric, "better": one.better, "machine": machine,
         "repetition": 1, "value": value}
        for one in measured
        for machine, value in zip(one.machines, one.y, strict=True)
    ]  # fmt: skip
    table = FingerprintTable(
        runs.join(pd.DataFrame(x, columns=list(measured[0].columns))), pd.DataFrame(rows)
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / PLACES.processed).mkdir(parents=True)
    table.write(tmp_path / PLACES.processed)

    def run(jobs):
        knobs = {"seed": 1, "n_jobs": jobs, "fingerprints": {"evaluate": {"entries": ["ensemble", "median"]}}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(knobs))
        evaluate_stage()
        reports = tmp_path / "reports/fingerprints"
        tables = ("oof.parquet", "accuracy.parquet", "predicted.csv", "coverage.csv")
        return [
            (reports / name).read_bytes()
            for name in ("metrics.json", "summary.json", *(f"evaluated/{table}" for table in tables))
        ]

    return run


def test_output_does_not_depend_on_the_number_of_processes(project):
    assert project(1) == project(2)


def test_thesis_settings_reproduce_leading_stressors_of_the_paper(shared_data):
    from data.fingerprints.formats import SOURCES
    from data.fingerprints.params import Fingerprints
    from data.fingerprints.validity import decide_validity
    from data.params import Ingest
    from features.fingerprints.matrix import fingerprint_matrix

    section = Fingerprints(ingest=Ingest(format="quiho", path=shared_data / "quiho"))
    tables = SOURCES.read("quiho", [section.ingest.path]).tables
    table = fingerprint_matrix(
        decide_validity(tables, section.checks.max_missing_fraction).select_kept(tables)
    )
    expected = {
        "hpccg": "cache", "ssca": "cache", "scikit-learn": "cache",
        "mariadb-10.3.2-innodb-load": "msync", "mariadb-5.5.58-innodb-load": "msync",
    }  # fmt: skip
    found = {}
    for name in expected:
        measured = table.measurements_of(name)
        found[name] = measured.columns[int(np.argmax(seed_shares(measured, 20261121)))]
    assert found == expected


def test_both_boosting_methods_agree_on_a_clear_cause():
    measured = application(machines(40), {"vm": 1})
    for boosting in ("gradient-boosting", "xgboost"):
        shares = seed_shares(measured, 0, boosting=boosting)
        assert np.argmax(shares) == measured.columns.index("vm")
        assert shares.sum() == pytest.approx(1, abs=1e-5)
