"""A family of its own goes through the whole house, and only params.yaml, dvc.yaml and the list are edited.

It tells how long machines take to boot from how much memory they have.
"""

import json
import os

import httpx
import numpy as np
import pandas as pd
import pytest
import yaml

from tests.imports import ROOMS, ROOT, copied
from tests.system.conftest import Listening, output_of

#: Every file that the family adds.
FILES = {
    "data/boots/__init__.py": """
from data.families import DataPlugin
PLUGIN = DataPlugin("data.boots.tables:ingest_stage")
""",
    "data/boots/tables.py": """
from dataclasses import dataclass
from typing import ClassVar
import pandas as pd
from data.params import FamilySection, Ingest, Promote
from data.stages import ingest
from data.tables.formats import Reading
from data.tables.specs import Spec, Tables

class Boots(FamilySection):
    family: ClassVar[str] = "boots"
    ingest: Ingest
    promote: Promote

@dataclass(frozen=True)
class BootTables(Tables):
    SPECS: ClassVar = {"boots": Spec({"machine": "str", "memory_gib": "float64", "seconds": "float64"})}
    boots: pd.DataFrame

def ingest_stage():
    ingest(Boots, lambda section: Reading(BootTables.read(section.ingest.path)))
""",
    "features/boots/__init__.py": """
from features.plugins import FeaturesPlugin

def _featurize():
    import numpy as np
    from data.boots.tables import BootTables
    from data.paths import FamilyPaths
    from data.tables.files import replacing
    boots = BootTables.read(FamilyPaths("boots").interim).boots
    with replacing(FamilyPaths("boots").processed / "features.parquet") as path:
        boots.assign(log_memory=np.log2(boots["memory_gib"])).to_parquet(path)

PLUGIN = FeaturesPlugin(_featurize)
""",
    "training/boots/__init__.py": """
from training.plugins import TrainingPlugin

def _model():
    from training.boots import model
    return model

PLUGIN = TrainingPlugin(
    evaluate=lambda: _model().evaluate(),
    train=lambda: _model().train(),
    promote=lambda: _model().promote(),
    trusted=("sklearn.linear_model._base.LinearRegression",),
)
""",
    "training/boots/model.py": """
from dataclasses import dataclass
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_predict
from data.boots.tables import Boots
from data.params import load
from data.paths import FamilyPaths
from data.tables.files import digest_of, replacing, write_json
from data.tables.documents import written
from training.evaluation.metrics import summarise_folds
from training.evaluation.paired_bootstrap import BootstrapSettings
from training.registry.challenger_test import OOF, Candidate, CandidateLog, promote_candidate
from training.registry.stored import StoredCard, StoredModel
from training.registry.runs import TrackedRun, scores_by_name
from training.registry.challenger_test import compare_by_errors

PLACES = FamilyPaths("boots")
FEATURES = PLACES.processed / "features.parquet"

@dataclass(frozen=True)
class Card(StoredCard):
    model: str
    features: tuple[str, ...]
    data_digest: str

    @property
    def description(self):
        return {"estimator": self.model, "features": self.features, "data_digest": self.data_digest}

class Line(StoredModel[Card]):
    CARD = Card

def evaluate():
    rows = pd.read_parquet(FEATURES)
    measured, vectors = rows["seconds"], rows[["log_memory"]].to_numpy()
    predicted = cross_val_predict(LinearRegression(), vectors, measured, cv=4)
    with replacing(PLACES.evaluated / OOF) as path:
        rows.assign(predicted=predicted, measured=measured, group=rows["machine"]).to_parquet(path)
    entries = {"line": {"kind": "model", "mape": summarise_folds(abs(predicted / measured - 1), None)}}
    splits = {"machines": {"scheme": "4 folds of machines", "folds": 4, "entries": entries}}
    data = {"path": "raw", "format": "csv", "digest": digest_of(FEATURES), "boots": len(rows)}
    write_json(PLACES.metrics, dict(champion="line", data=data, seed=load(Boots).seed, splits=splits))

def train():
    rows, card = pd.read_parquet(FEATURES), Card("line", ("log_memory",), digest_of(FEATURES))
    Line(LinearRegression().fit(rows[["log_memory"]].to_numpy(), rows["seconds"]), card).write(PLACES.models)

def promote():
    knobs, metrics = load(Boots), written(PLACES.metrics, "evaluate")
    how, run = knobs.section.promote, TrackedRun("line", scores_by_name(metrics["splits"], "line"))
    oof = pd.read_parquet(PLACES.evaluated / OOF)
    compare = compare_by_errors(["machine"], BootstrapSettings.from_params(how, knobs.seed), "boots")
    log = CandidateLog("boots", metrics["data"], FEATURES, PLACES.models, [run], oof)
    means = log.make_test(Line.read, compare)
    print(promote_candidate(Candidate(how.name, "line", PLACES.models, PLACES.metrics, lambda: means)))
""",
    "serving/boots/__init__.py": '''
from serving.plugins import MEBIBYTE, Endpoint, FamilyPlugin, Registered

def _page(root):
    from data.paths import FamilyPaths
    from data.tables.documents import written
    from serving.reports.rendering import render
    return render("boots.html", metrics=written(FamilyPaths("boots", root).metrics, "evaluate"))

def _endpoints():
    from serving.boots.answers import LOADER, BootAnswer, BootRequest, handle
    by_type = {"application/json": handle}
    schemas = (BootRequest, BootAnswer)
    return [Endpoint("/v1/boots", "boots", "Boots.", *schemas, by_type, MEBIBYTE, _LINE, LOADER)]

def _commands(app):
    @app.command()
    def boot(memory_gib: float) -> int:
        """Tell how long a machine takes to boot."""
        from serving.boots.answers import LOADER, seconds
        print(seconds(memory_gib, LOADER.load()).model_dump_json())
        return 0

_LINE = Registered("boots", "Tells how long machines take to boot.")
PLUGIN = FamilyPlugin(_page, models=(_LINE,), endpoints=_endpoints, commands=_commands)
''',
    "serving/boots/answers.py": """
from math import log2
from pydantic import BaseModel, PositiveFloat
from data.boots.tables import Boots
from serving.http.bodies import Answered, request_of
from serving.http.schemas import ServedModel
from serving.models import Source
from serving.plugins import Loader
from training.boots.model import Card, Line
from training.registry.champions import project_params

class BootRequest(BaseModel):
    memory_gib: PositiveFloat

class BootAnswer(BaseModel):
    seconds: float

def seconds(memory_gib, line):
    return BootAnswer(seconds=line.model.model.predict([[log2(memory_gib)]])[0])

def handle(body, line):
    return Answered.from_schema(seconds(request_of(body, BootRequest).memory_gib, line))

LINES = Source(lambda: project_params(Boots).section.promote.name, Line.read, Card.read)
LOADER = Loader(LINES.name, LINES.load, lambda line: line.card.description, ServedModel, LINES.load_card)
""",
    "serving/reports/templates/boots.html": """
{% extends "report.html" %}{% block content %}<h1>{{ metrics.data.boots }} boots</h1>{% endblock %}
""",
}
#: What it adds to params.yaml.
KNOBS = {"ingest": {"path": "data/raw/boots"}, "promote": {"name": "boot-seconds"}}
EVALUATED = ("evaluated", "metrics.json")
#: What it adds to dvc.yaml: by verb, what it reads and what it leaves.
ROWS = {
    "data.ingest": (["data/raw/boots"], ["data/interim/boots"]),
    "features.featurize": (["data/interim/boots"], ["data/processed/boots"]),
    "training.evaluate": (["data/processed/boots"], [f"reports/boots/{one}" for one in EVALUATED]),
    "training.train": (["data/processed/boots"], ["models/boots"]),
    "training.promote": (["models/boots", "reports/boots/metrics.json"], []),
    "serving.report": (["reports/boots/metrics.json"], ["reports/boots/index.html"]),
}


@pytest.fixture(scope="session")
def house(made_once, preloaded_programs):
    """A copy of the project with one family more, whose stages have run."""

    def fill(root):
        copied(root)
        for name, text in FILES.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text.lstrip())
        names = (ROOT / "data/families.py").read_text()
        (root / "data/families.py").write_text(names.replace('"fingerprints")', '"fingerprints", "boots")'))
        knobs, stages = (yaml.safe_load((ROOT / name).read_text()) for name in ("params.yaml", "dvc.yaml"))
        (root / "params.yaml").write_text(yaml.safe_dump(knobs | {"boots": KNOBS}))
        for verb, (deps, outs) in ROWS.items():
            code = [f"{room}/boots" for room in ROOMS if room in verb]
            row = {"cmd": f"python -m {verb} boots", "deps": deps + code, "outs": outs}
            stages["stages"][f"{verb.partition('.')[2]}-boots"] = row
        (root / "dvc.yaml").write_text(yaml.safe_dump(stages))
        memory = 2.0 ** np.arange(16)
        boots = pd.DataFrame({"machine": [f"m{n}" for n in range(16)], "memory_gib": memory})
        (root / "data/raw/boots").mkdir(parents=True)
        boots.assign(seconds=20 + 3 * np.log2(memory)).to_parquet(root / "data/raw/boots/boots.parquet")
        run(root, preloaded_programs, "dvc", "init", "--quiet", "--no-scm")
        stages = [f"{verb.partition('.')[2]}-boots" for verb in ROWS]
        run(root, preloaded_programs, "dvc", "repro", *stages)

    return made_once("house", fill)


def run(root, programs, *command):
    """Run one of the programs with the copy's code, and return what it printed."""
    environment = os.environ | {"PYTHONPATH": str(root), "PATH": f"{programs}:{os.environ['PATH']}"}
    return output_of(programs / command[0], *command[1:], cwd=root, env=environment)


def test_a_new_family_needs_at_most_150_lines():
    assert sum(len(text.strip().splitlines()) for text in FILES.values()) <= 150


def test_measurements_of_the_new_family_become_champion_and_report(house, preloaded_programs):
    metrics = json.loads((house / "reports/boots/metrics.json").read_text())
    assert metrics["splits"]["machines"]["entries"]["line"]["mape"]["mean"] < 1e-9
    told = run(house, preloaded_programs, "python", "-m", "training.promote", "boots")
    assert told == "boot-seconds v1 (line) stays champion: no champion was registered before\n"
    assert "<h1>16 boots</h1>" in (house / "reports/boots/index.html").read_text()


def test_command_and_endpoint_of_the_new_family_answer(
    house, preloaded_programs, model_directory, monkeypatch
):
    told = run(house, preloaded_programs, "perfjudge", "boot", "8")
    assert json.loads(told)["seconds"] == pytest.approx(29)
    monkeypatch.setenv("PYTHONPATH", str(house))
    monkeypatch.chdir(house)
    server = Listening("--model", model_directory)
    with server, httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.post("/v1/boots", json={"memory_gib": 32}).json()["seconds"] == pytest.approx(35)
        assert client.post("/v1/boots", json={"memory_gib": -1}).status_code == 422
        models = client.get("/v1/models").json()["models"]
        assert ("boot-seconds", "1") in [(one["serves"], one["version"]) for one in models]
        described = client.get("/openapi.json").json()
        assert "/v1/boots" in described["paths"]
        assert "memory_gib" in described["components"]["schemas"]["BootRequest"]["properties"]
