"""Versions after the target: who looks at them, and what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.formats.comparison_json import tables_of
from data.comparisons.params import Comparisons
from features.comparisons.later import LATER_FEATURES
from features.comparisons.vectors import columns, set_of, vectors
from serving.comparisons.judge import judge
from serving.models import ModelRef, Served
from tests.code.comparisons.sides_by_hand import sides_of
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import Card, TrainedModel
from training.estimators.catalogue import CATALOGUE
from training.estimators.pipelines import answering, pipeline

numbers = st.lists(st.lists(st.floats(50.0, 200.0), min_size=1, max_size=3), max_size=12)
sides = st.tuples(numbers.filter(bool), numbers.filter(bool), numbers)
ONLINE = len(columns("extended"))


@given(st.lists(sides, min_size=1, max_size=3), numbers, numbers, st.sampled_from(["lower", "higher"]))
@settings(deadline=None, max_examples=40)
def test_what_came_later_changes_no_feature_of_who_judges_online(known, one, other, better):
    first, second, without = (
        sides_of([[(*sides, later) for sides in known]], better) for later in (one, other, [])
    )
    expected = vectors(without)
    for known_later in (first, second):
        assert vectors(known_later).tobytes() == expected.tobytes()
        assert vectors(known_later, "retrospective")[:, :ONLINE].tobytes() == expected.tobytes()
    assert np.isnan(vectors(without, "retrospective")[:, ONLINE:]).all()


def test_each_set_has_all_of_the_one_before_and_is_known_by_its_features():
    seed, extended, retrospective = map(columns, ("seed", "extended", "retrospective"))
    assert extended[: len(seed)] == seed
    assert retrospective == extended + LATER_FEATURES
    assert [set_of(one) for one in (seed, extended, retrospective)] == ["seed", "extended", "retrospective"]
    assert set_of(("medians_min", LATER_FEATURES[0])) == "retrospective"


@pytest.mark.parametrize(
    ("features", "name"),
    [("seed", "mine"), ("extended", "mine"), ("retrospective", "mine-retrospective")],
)
def test_who_looks_past_the_target_is_registered_under_a_name_of_its_own(features, name):
    given = {"ingest": {"path": "x"}, "tune": {"models": ()}, "evaluate": {}, "promote": {"name": "mine"}}
    assert Comparisons.model_validate(given | {"featurize": {"set": features}}).registered == name


@pytest.fixture(scope="module", params=["extended", "retrospective"])
def served(request):
    generator, names = np.random.default_rng(3), columns(request.param)
    features = generator.normal(0, 0.5, (300, len(names)))
    fails = (features[:, 0] + features[:, -1] < -0.4).astype(np.int64)
    model = CATALOGUE["logistic"]
    fitted = answering(pipeline(model, model.start, fails, 0).fit(features, fails))
    card = Card("logistic", names, 0.5, {}, dict.fromkeys(names, 0.0), "0" * 64, 0)
    return Served(ReadyModel.of(TrainedModel(fitted, card)), ModelRef("m", "7", "models:/m/7"))


def asked(later):
    configuration = {"threads": 1, "baseline": [100.0, 101.0, 99.0], "target": [120.0, 121.0, 119.0]}
    configuration |= {"history": [[100.0], [99.0], [101.0]] * 3, "later": later}
    return {"operation": "x", "better": "lower", "configurations": [configuration]}


def test_a_verdict_says_whether_later_versions_were_known_for_nothing_or_wanted_and_not_known(served):
    lists = [[], [[120.0], [121.0]], [[100.0], [101.0]]]
    content = [asked(later) | {"comparison_id": str(place)} for place, later in enumerate(lists)]
    none, stayed, returned = judge(tables_of({"comparisons": content}), served).verdicts
    online = "versions after the target are known; this model does not look at them"
    lacking = "judged in hindsight, but no version after the target is known"
    if served.model.computed == "extended":
        assert [none.remarks, stayed.remarks, returned.remarks] == [(), (online,), (online,)]
        assert none.probability == stayed.probability == returned.probability
    else:
        assert [none.remarks, stayed.remarks, returned.remarks] == [(lacking,), (), ()]
        assert stayed.probability != returned.probability
        assert 0 <= none.probability <= 1
