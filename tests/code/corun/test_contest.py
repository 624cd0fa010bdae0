import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from data.corun.params import Corun
from data.errors import InputError
from data.params import validate_params
from data.paths import FamilyPaths
from training.corun.promote import promotion_candidates
from training.corun.stored import ImpactCard, TrainedImpact
from training.evaluation.paired_bootstrap import BootstrapSettings
from training.evaluation.search import SearchOutcome, TrialRow, Tuned, write_outcomes
from training.registry import champions
from training.registry.challenger_test import compare_by_verdicts, promote_candidate
from training.registry.champions import CHALLENGER, CHAMPION, version_of
from training.registry.promotion_history import ChampionRecord, promote_version, read_promotions

NAME = "corun-2-static"
STAYS = f"{NAME} v1 (forest) stays champion"
PARAMS = validate_params(Corun, {"seed": 1, "corun": {"promote": {"name": NAME}}}, Path("params.yaml"))


def candidate(root, error, swing=0.0):
    """The candidate of a model that is wrong by `error`, and in turn by `swing` more and less."""
    entry = {"kind": "regression", "mape": {"mean": error, "pooled": error}}
    metrics = {
        "champion": "forest", "seed": 1, "online": None,
        "data": {"path": "raw", "format": "tables", "digest": f"{error}", "tasks": 30},
        "splits": {"pairs": {"entries": {"forest": entry}}},
    }  # fmt: skip
    places = FamilyPaths("corun", root / str(error))
    for place in (places.evaluated, places.tuned, places.processed):
        place.mkdir(parents=True)
    pd.DataFrame({"task": ["t0"], "rate": [1.0]}).to_parquet(places.processed / "features.parquet")
    places.metrics.write_text(json.dumps(metrics))
    row, errors = np.arange(30), error * (1 + np.arange(30) % 3) + np.tile([swing, -swing], 15)
    pd.DataFrame({
        "task": [f"t{n}" for n in row], "corunners": "c", "machine": "m", "model": "forest",
        "design": "pairs", "fold": row % 2, "measured": 2.0, "predicted": 2.0 * (1 + errors),
    }).to_parquet(places.evaluated / "oof.parquet")  # fmt: skip
    row = TrialRow("all", "forest", 0, "complete", 0.5, "{}")
    write_outcomes(places.tuned, [SearchOutcome("all", "forest", Tuned({}, 0.5), [row])])
    card = ImpactCard("forest", ("x",), {}, {"pairs": 0.1}, ("m",), ("t0",), "d", 1, 0.9)
    TrainedImpact(Ridge().fit([[0.0], [1.0]], [0.0, error]), card).write(places.models / "forest")
    (found,) = promotion_candidates(PARAMS, metrics, places)
    return found


pytestmark = [pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")]


@pytest.fixture
def good(tmp_path, mlflow_store):
    """Return the candidate with an error of 5 %, which has become the first champion."""
    first = candidate(tmp_path, 0.05)
    assert promote_candidate(first) == f"{NAME} v1 (forest) is champion: no champion was registered before"
    return first


def test_a_worse_candidate_of_impact_becomes_challenger(tmp_path, good):
    worse, better = (candidate(tmp_path, error) for error in (0.1, 0.01))
    assert promote_candidate(good) == f"{STAYS}: no champion was registered before"
    told = promote_candidate(worse)
    assert told.startswith(f"{STAYS}, v2 (forest) is challenger: worse than v1 on")
    assert "(mean error smaller by -0.1" in told
    assert (version_of(NAME, CHAMPION).version, version_of(NAME, CHALLENGER).version) == ("1", "2")
    assert promote_candidate(better).startswith(f"{NAME} v3 (forest) is champion: better than v1")
    kept = pd.read_parquet(version_of(NAME, CHAMPION).directory / "oof.parquet")
    assert list(kept.columns) == ["task", "corunners", "machine", "measured", "predicted", "group", "fold"]


def test_a_candidate_better_by_chance_becomes_challenger(tmp_path, good):
    similar = candidate(tmp_path, 0.0499, 0.01)
    told = promote_candidate(similar)
    assert told.startswith(f"{STAYS}, v2 (forest) is challenger: not significantly better than v1 on")
    assert "(mean error smaller by +0.000" in told
    assert f"; perfjudge promote {NAME} 2 --reason ... replaces it nevertheless" in told
    # until a person says so
    promote_version(NAME, "2", ChampionRecord("2", "promote", "newer labels", "anna"), "1")
    assert promote_candidate(similar).startswith(f"{NAME} v2 (forest) stays champion: promoted by anna")


def test_a_manual_rollback_holds_until_the_next_candidate(tmp_path, good):
    better, best = (candidate(tmp_path, error) for error in (0.03, 0.01))
    promote_candidate(better)
    promote_version(NAME, "1", ChampionRecord("1", "rollback", "calmer", "anna"), "2")
    assert promote_candidate(better) == f"{STAYS}: anna preferred v1: calmer"
    assert promote_candidate(best).startswith(f"{NAME} v3 (forest) is champion: better than v1")
    assert [one.version for one in read_promotions(NAME)] == ["1", "2", "1", "3"]


def test_a_candidate_is_challenger_after_a_concurrent_promotion(tmp_path, good):
    better, best = (candidate(tmp_path, error) for error in (0.03, 0.01))
    promote_candidate(better)
    compare = best.means()

    def meanwhile(directory):
        promote_version(NAME, "1", ChampionRecord("1", "rollback", "calmer", "anna"), "2")
        return compare.compare(directory)

    told = promote_candidate(replace(best, means=lambda: replace(compare, compare=meanwhile)))
    assert told.startswith(f"{STAYS}, v3 (forest) is challenger: v1 became champion meanwhile")
    assert version_of(NAME, CHAMPION).version == "1"


def test_a_candidate_compared_on_one_label_becomes_challenger(tmp_path, good):
    compare = compare_by_verdicts(["case"], BootstrapSettings(100, 0.95, 1), "the same unseen pairs")
    for version, error, label, missing in ((2, 0.01, "fail", "pass"), (3, 0.02, "pass", "fail")):
        better = candidate(tmp_path, error)
        rows = pd.DataFrame({"case": ["a", "b"], "status": label, "verdict": "pass", "group": ["a", "b"]})
        means = replace(better.means(), compare=lambda _, rows=rows: compare(rows, rows))
        told = promote_candidate(replace(better, means=lambda means=means: means))
        reason = f'cannot be compared with v1: none of the same unseen pairs is labelled "{missing}"; '
        assert told.startswith(f"{STAYS}, v{version} (forest) is challenger: {reason}")


def test_an_unreadable_champion_is_replaced_by_a_worse_model(tmp_path, good):
    worse, broken = (candidate(tmp_path, error) for error in (0.1, 0.01))
    (version_of(NAME, CHAMPION).directory / "model.skops").write_text("half a mo")
    told = promote_candidate(worse)
    assert told.startswith(f"{NAME} v2 (forest) is champion: v1 cannot be read any more (")
    # an unreadable candidate is not registered
    (broken.directory / "model.skops").write_text("half a mo")
    with pytest.raises(InputError, match=r"0.01/models/corun/forest: cannot be read"):
        promote_candidate(broken)
    (version_of(NAME, CHAMPION).directory / "model.skops").unlink()
    assert promote_candidate(good) == f"{NAME} v3 (forest) is champion: the files of v2 are gone"


def test_impact_models_are_logged_with_data_chart_and_trials(good):
    client = champions.client()
    run = client.get_run(client.get_model_version(NAME, "1").run_id)
    assert (run.info.run_name, run.data.tags["role"]) == ("static forest", "champion")
    assert run.data.metrics == {"mape": 0.05, "pairs/mape_mean": 0.05, "pairs/mape_pooled": 0.05}
    (given,) = run.inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest) == ("raw", "0.05")
    assert [one.path for one in client.list_artifacts(run.info.run_id)] == ["model", "predicted-measured.png"]
    nested = client.search_runs([client.get_experiment_by_name("folds and trials").experiment_id])
    names = ["static forest pairs f00", "static forest pairs f01", "forest trial 000"]
    assert [one.info.run_name for one in nested] == names
    assert {one.data.tags["mlflow.parentRunId"] for one in nested} == {run.info.run_id}
