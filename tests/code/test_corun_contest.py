import json

import pandas as pd
import pytest

from data.params import Params
from training.corun_contest import Places, promote
from training.registry import CHALLENGER, CHAMPION, version_of

NAME = "corun-static"
PARAMS = Params.model_validate(
    {"seed": 1, "comparisons": {"format": "tables", "path": "x", "tune": {"models": []}}}
)


def written(directory, error):
    """What the stages before promotion would write, for a model that is wrong by `error`."""
    metrics = {
        "champion": "forest",
        "seed": 1,
        "data": {"digest": f"{error}"},
        "splits": {"pairs": {"entries": {"forest": {"mape": {"mean": error, "pooled": error}}}}},
        "online": None,
    }
    places = Places(directory / "reports", directory / "models", directory / "tuned")
    for place in (places.reports, places.models / "forest", places.tuned):
        place.mkdir(parents=True, exist_ok=True)
    (places.reports / "metrics.json").write_text(json.dumps(metrics))
    rows = [
        {"task": f"t{n}", "corunners": "c", "machine": "m", "model": "forest", "design": "pairs",
         "fold": n % 2, "measured": 2.0, "predicted": 2.0 * (1 + error * (1 + n % 3))}
        for n in range(30)
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet(places.reports / "oof.parquet")
    trials = [{"part": "all", "model": "forest", "trial": 0, "value": 0.5, "params": "{}"}]
    pd.DataFrame(trials).to_parquet(places.tuned / "trials.parquet")
    (places.models / "forest" / "card.json").write_text('{"params": {}}')
    (places.models / "forest" / "model.skops").write_text("a model")
    return metrics, places


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
def test_only_a_worse_model_of_impact_is_challenger(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    good, worse, better = (written(tmp_path / str(error), error) for error in (0.05, 0.1, 0.01))
    assert promote(PARAMS, *good) == [f"{NAME} v1 (forest) is champion: it is the first one"]
    assert promote(PARAMS, *good) == [f"{NAME} v1 (forest) stands: it is the first one"]
    (told,) = promote(PARAMS, *worse)
    assert told.startswith(f"{NAME} v1 (forest) stays champion, v2 (forest) is challenger: worse than v1 on")
    assert "(mean error smaller by -0.1" in told
    assert (version_of(NAME, CHAMPION).version, version_of(NAME, CHALLENGER).version) == ("1", "2")
    (told,) = promote(PARAMS, *better)
    assert told.startswith(f"{NAME} v3 (forest) is champion: not worse than v1")
    kept = pd.read_parquet(version_of(NAME, CHAMPION).directory / "oof.parquet")
    assert list(kept.columns) == ["task", "corunners", "machine", "measured", "predicted", "group"]
