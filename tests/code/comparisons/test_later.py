"""Versions after the target: who looks at them, and what they say."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.formats.comparison_json import tables_of
from data.comparisons.params import Comparisons
from features.comparisons.later import LATER_DIRECTIONS, LATER_FEATURES
from features.comparisons.vectors import feature_vectors, model_columns, smallest_set_with, vector_columns
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import load_judge
from tests.code.comparisons.posted import comparison, random_model
from tests.code.comparisons.sides_by_hand import sides_of
from tests.data.refusals import refusal

numbers = st.lists(st.lists(st.floats(50.0, 200.0), min_size=1, max_size=3), max_size=12)
sides = st.tuples(numbers.filter(bool), numbers.filter(bool), numbers)
ONLINE = len(vector_columns("extended"))


@given(st.lists(sides, min_size=1, max_size=3), numbers, numbers, st.sampled_from(["lower", "higher"]))
@settings(max_examples=40)
def test_later_versions_do_not_change_online_features(known, one, other, better):
    first, second, without = (
        sides_of([[(*sides, later) for sides in known]], better) for later in (one, other, [])
    )
    expected = feature_vectors(without)
    for known_later in (first, second):
        assert feature_vectors(known_later).tobytes() == expected.tobytes()
        assert feature_vectors(known_later, "retrospective")[:, :ONLINE].tobytes() == expected.tobytes()
    assert np.isnan(feature_vectors(without, "retrospective")[:, ONLINE:]).all()


def test_every_feature_set_extends_the_previous_one():
    sets = ("thesis", "extended", "retrospective")
    seed, extended, retrospective = map(model_columns, sets)
    assert set(extended) & set(seed) == {"medians_min", "medians_med", "medians_max"}
    assert retrospective == extended + LATER_FEATURES
    assert tuple(map(smallest_set_with, (seed, extended, retrospective))) == sets
    assert smallest_set_with(("medians_min", LATER_FEATURES[0])) == "retrospective"
    # models of the last one are registered under a separate name
    given = {"ingest": {"path": "x"}, "tune": {"models": ()}, "evaluate": {}, "promote": {"name": "mine"}}
    for features, name in zip(sets, ("mine", "mine", "mine-retrospective"), strict=True):
        section = Comparisons.model_validate(given | {"featurize": {"feature_set": features}})
        assert section.registered_name == name


@pytest.fixture(scope="module", params=["extended", "retrospective"])
def served(request):
    return random_model(model_columns(request.param))


def test_verdicts_remark_on_unused_or_missing_later_versions(served):
    content = []
    for name, later in (("a", []), ("b", [[120.0], [121.0]]), ("c", [[100.0], [101.0]])):
        one = comparison([100, 101, 99], [120, 121, 119], [[100], [99], [101]] * 3, name=name)
        one["configurations"][0]["later"] = later
        content.append(one)
    none, stayed, returned = judge_tables(tables_of({"comparisons": content}), served).verdicts
    online = "versions after the target are known; this model does not look at them"
    lacking = "judged in hindsight, but no version after the target is known"
    if served.model.card.feature_set == "extended":
        assert [none.remarks, stayed.remarks, returned.remarks] == [(), (online,), (online,)]
        assert none.probability == stayed.probability == returned.probability
    else:
        assert [none.remarks, stayed.remarks, returned.remarks] == [(lacking,), (), ()]
        assert stayed.probability != returned.probability
        assert 0 <= none.probability <= 1


def test_the_retrospective_champion_is_loaded_on_request_or_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    told = "; make one with: dvc exp run -S comparisons.featurize.feature_set=retrospective"
    assert refusal(load_judge, retrospective=True).endswith(told)
    assert told not in refusal(load_judge, "models:/mine/3", retrospective=True)
    monkeypatch.setattr("serving.comparisons.model.JUDGES", SimpleNamespace(load=lambda uri: uri))
    assert load_judge() is None
    assert load_judge(retrospective=True) == "models:/regression-comparison-retrospective@champion"
    assert load_judge("models:/mine/3", retrospective=True) == "models:/mine/3"


def course(later, step=0.0, better="lower", seed=0):
    """Thirty versions of history, ten of the baseline, five of the target, and later ones; noise of 1 %."""
    generator, worse = np.random.default_rng(seed), 1 + step if better == "lower" else 1 / (1 + step)
    lengths = {"history": 30, "baseline": 10, "target": 5, "later": later}
    found = {name: 100 * generator.normal(1, 0.01, (length, 2)) for name, length in lengths.items()}
    for name in ("target", "later"):
        found[name] = worse * found[name]
    return tuple(found[name].tolist() for name in ("baseline", "target", "history", "later"))


def told(configurations, better="lower"):
    found = feature_vectors(sides_of([[one] for one in configurations], better), "retrospective")[:, ONLINE:]
    return [dict(zip(LATER_FEATURES, row, strict=True)) for row in found.tolist()]


LADDER = (-0.2, -0.05, 0.0, 0.05, 0.1, 0.2, 0.4, 1.0)


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("later", [1, 6, 40])
@pytest.mark.parametrize("seed", range(3))
def test_directed_features_fall_with_worse_later_versions(later, better, seed):
    steps = told([course(later, step, better, seed) for step in LADDER], better)
    for name, direction in LATER_DIRECTIONS.items():
        values = [one[name] for one in steps]
        if direction and not np.isnan(values[0]):
            falls = np.diff(values)
            assert (falls <= 0.02 * np.ptp(values) + 1e-9).all(), (name, values)
            assert values[-1] < values[0], name


def test_lasting_steps_differ_from_reverted_and_earlier_steps():
    stayed, flat = course(20, 0.1), course(20)
    returned = (*stayed[:3], flat[3])
    earlier = (stayed[1] * 2, stayed[1], flat[2], stayed[3])
    there, back, before = told([stayed, returned, earlier])
    for name in ("later_step", "soon_step", "recovered", "stayed", "after_t_20", "segment_lasting_6"):
        assert there[name] < 0.5 * min(back[name], before[name], 0), name
    assert back["target_alone"] < -1 < there["target_alone"]
    assert there["later_seen"] == back["later_seen"] == 20


def test_later_features_ignore_invalid_measurements_and_other_comparisons():
    whole = course(12, 0.1)
    holed = (*whole[:3], [one for version in whole[3] for one in ([0.0], version, [-1.0])])
    assert told([holed]) == told([whole])
    bare = course(9)
    asked_for = [course(3, 0.1), course(40, 0.2, seed=1), course(1, seed=2), (*bare[:2], [], bare[3])]
    together, alone = told(asked_for), [told([one])[0] for one in asked_for]
    np.testing.assert_equal(together, alone)


def test_features_of_extreme_later_values_stay_finite():
    extreme = ([[1e-200, 2e-200]], [[1.0, 2.0]], [], [[1e100]] * 5)
    found = feature_vectors(sides_of([[extreme]], "lower"), "retrospective")
    assert np.nanmax(np.abs(found)) <= 1e9
    assert found[0, list(vector_columns("retrospective")).index("later_change")] == -1e9
