import numpy as np
import pandas as pd

from tests.matrix_pairs import of_groups, pairs
from training.matrices.engine import validity_tree
from training.matrices.engine.validity_tree import ValidityTree, run_deviations


def test_invalid_runs_of_unknown_test_cases_have_a_tree_path():
    tree = ValidityTree.fit(pairs(cases=8, invalid=0.1), 1)
    asked = pairs(cases=8, invalid=0.1, seed=2)
    paths = pd.Series(tree.decision_paths(asked))
    invalid = ~asked.runs["valid"].to_numpy(bool)
    assert paths[invalid].notna().mean() > 0.9
    assert paths[~invalid].notna().mean() < 0.02
    assert paths.dropna().str.contains(r"m\d+=\S+(?: > |, usually )").all()
    # a target that differs as a whole is valid
    assert not any(tree.decision_paths(pairs(size=3.0)))


def test_a_tree_without_invalid_training_runs_accepts_all():
    tables = pairs(cases=2)
    assert not any(ValidityTree.fit(tables, 1).decision_paths(of_groups(tables, "g0")))


def compared_with_all(runs, scaled):
    """The deviation of each run from all others of its pair, one by one."""
    deviation = np.zeros(scaled.shape)
    matrices = runs["pair_id"] + runs["side"]
    for row, metric in np.ndindex(scaled.shape):
        pair = (runs["pair_id"] == runs["pair_id"].iloc[row]).to_numpy()
        own = (matrices == matrices.iloc[row]).to_numpy()
        typical = []
        for others in (own & (np.arange(len(runs)) != row), pair & ~own):
            apart = scaled[row, metric] - scaled[others, metric]
            apart = sorted(apart[np.isfinite(apart)], key=abs)
            typical += apart[(len(apart) - 1) // 2 : (len(apart) + 1) // 2]
        deviation[row, metric] = min(typical, key=abs, default=0.0)
    return deviation


def test_every_run_of_small_matrices_is_compared():
    runs = pairs(groups=1, cases=3, versions=2, runs=5).runs
    scaled = np.random.default_rng(1).normal(size=(len(runs), 4))
    scaled[::7, 1] = np.nan
    for part in (slice(None), slice(1)):
        deviation, usual = run_deviations(runs[part], scaled[part])
        assert (deviation == compared_with_all(runs[part], scaled[part])).all()
        assert (usual == np.nan_to_num(scaled[part] - deviation)).all()


def test_large_matrices_are_represented_by_some_runs(monkeypatch):
    runs = pairs(groups=1, cases=1, versions=1, runs=1000).runs
    scaled = np.random.default_rng(1).normal(0, 0.1, (len(runs), 50))
    scaled[700] += 5
    deviation, usual = run_deviations(runs, scaled)
    assert np.abs(usual[700]).max() < 1
    assert deviation[700].min() > 4
    assert (deviation == run_deviations(runs, scaled)[0]).all()
    monkeypatch.setattr(validity_tree, "MAX_OTHERS", 5000)
    whole = run_deviations(runs, scaled[:, :5])[0]
    assert np.abs(np.abs(deviation[:, :5]) - np.abs(whole)).mean() < 0.02
