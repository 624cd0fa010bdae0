"""The operations that `benchmarks.guard` measures, each some tens of milliseconds of processor time.

Models are small, and fitted within seconds to synthetic comparisons and to the shipped measurements, with
fixed seeds, so that a fresh clone without trained models measures the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property, partial
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.impact import table_of
from benchmarks.imports.formats import SHAPES, write_large_file
from benchmarks.serving import family_bodies
from benchmarks.timelines import RULES, DrawnResults
from data.comparisons import formats
from data.comparisons.sides import Sides
from data.comparisons.stages import validate_comparisons
from data.comparisons.tables import Builder, ComparisonTables, Series
from data.corun.tables import CorunTables
from data.matrices.tables import MatrixTables
from data.tables.problems import Problems
from features.comparisons.featurize import training_tables
from features.comparisons.vectors import FEATURES, feature_vectors
from serving.cli import run_command
from serving.comparisons.endpoints import answer_json, answer_many
from serving.comparisons.judge import judge_tables
from serving.comparisons.model import Judge, load_judge
from serving.corun.body import answer_online, answer_static
from serving.corun.model import Online, Static, load_static
from serving.fingerprints.command import answer_irup
from serving.matrices.request import Engine, answer_matrices
from serving.models import ModelRef, Served
from training.comparisons.family import FeatureTable
from training.comparisons.stored import Card, TrainedModel
from training.comparisons.train import write_examples
from training.corun.estimators.fitting import ImpactRecipe, ImpactTable
from training.corun.online import SampledRuns, fit_online_models, pair_runs, second_stage_model
from training.corun.stored import ImpactCard, KnownTasks, OnlineCard, TrainedImpact, TrainedOnline
from training.estimators.catalogue import CATALOGUE, build_pipeline, without_sampler
from training.matrices.engine.stored import EngineRecipe
from training.matrices.schemes import LARGE, Cell

RAW = Path("data/raw")
#: Sizes of the operations: comparisons judged at once, featurized, of a request and alone; megabytes read.
JUDGED, FEATURIZED, BATCH, SINGLE, EXPLAINED, MEGABYTES = 2000, 12_000, 500, 10, 10, 1.0
#: Workloads of matrices to train on.
WORKLOADS = 6
#: Parameters of the impact model, smaller than those of the champion.
_IMPACT = {"trees": 60, "forest": 10, "depth": 4, "rate": 0.1, "leaf": 1, "columns": 0.4, "rates": True}
_REF, _DIGEST = ModelRef("guard", "1", "benchmark"), "0" * 64
_CARD = {"data_digest": _DIGEST, "seed": 1, "half_widths": {"2": 0.1}, "confidence": 0.9}
Work = Callable[[], object]
#: Of synthetic comparisons: numbers of threads, samples a side, earlier versions, share of slower targets.
THREADS, REPETITIONS, BUILDS, SLOWER_SHARE = (1, 4), 5, 5, 0.2


def draw_comparisons(comparisons: int, seed: int = 0) -> tuple[ComparisonTables, np.ndarray]:
    """Return random comparisons of two configurations, and flags of those whose target is slower."""
    rng, builder, threads = np.random.default_rng(seed), Builder(), np.array(THREADS)
    slower = rng.random(comparisons) < SLOWER_SHARE
    noise = rng.normal(1, 0.02, (comparisons, len(threads), 2, REPETITIONS))
    values = 1000.0 * threads[:, None, None] * noise
    values[slower, :, 1] *= 0.85
    for row, configurations in enumerate(values.tolist()):
        name = f"operation-{row}"
        builder.comparisons.append((name, "synthetic", name, "m", 0, 0, 1, 1, None, None, None))
        for number, versions in zip(THREADS, configurations, strict=True):
            series = Series(None, None, "synthetic", name, "m", None, "higher", number)
            for order, samples in enumerate(versions):
                builder.results.add_values(series, order, None, samples)
    return builder.take_tables(), slower


def write_model(name: str, directory: Path) -> Path:
    """Write the catalogue's model `name`, fitted to 1,000 synthetic comparisons, to a folder; return it."""
    tables, slower = draw_comparisons(1000, seed=1)
    features = feature_vectors(Sides.from_tables(tables))
    model = CATALOGUE[name]
    fitted = build_pipeline(model, model.start, slower.astype(int), 0).fit(features, slower.astype(int))
    named = tables.comparisons[["comparison_id", "benchmark", "operation"]]
    head = named.assign(status=np.where(slower, "fail", "pass"), fold_group=named["operation"])
    frame = pd.concat([head, pd.DataFrame(features, columns=[*FEATURES])], axis=1)
    table = FeatureTable(frame, FEATURES, _DIGEST)
    card = Card(name, FEATURES, 0.5, dict(model.start), table.reference_medians(), _DIGEST, 0)
    whole, folder = TrainedModel(without_sampler(fitted), card), directory / name
    whole.write(folder)
    labels = table.frame[["comparison_id", "status"]].assign(labelled_by="nobody", labelled_at=pd.NaT)
    labels.to_parquet(directory / "labels.parquet")
    write_examples(whole, table, table.examples, directory / "labels.parquet", folder)
    return folder


def comparison_json(row: int) -> dict[str, object]:
    rng = np.random.default_rng(row)
    configurations = []
    for threads in THREADS:
        sides = {side: rng.normal(100, 2, REPETITIONS).tolist() for side in ("baseline", "target")}
        past = rng.normal(100, 2, (BUILDS, REPETITIONS)).tolist()
        configurations.append({"threads": threads, **sides, "history": past})
    named = {"comparison_id": f"c{row}", "benchmark": "synthetic", "operation": f"operation-{row}"}
    return named | {"machine": "m", "unit": "1/s", "better": "higher", "configurations": configurations}


@dataclass(frozen=True)
class Inputs:
    """Models and data of the operations, made when first used; `scratch` is an empty directory."""

    scratch: Path

    @cached_property
    def model(self) -> Path:
        return write_model("random-forest", self.scratch)

    @cached_property
    def judge(self) -> Judge:
        return load_judge(str(self.model))

    @cached_property
    def bodies(self) -> Mapping[str, list[str]]:
        return family_bodies(RAW)

    @cached_property
    def engine(self) -> Engine:
        """An engine for matrices, trained on the first workloads of the groups that a request has."""
        tables, pairs = MatrixTables.read(RAW / "matrices"), json.loads(self.bodies["/v1/matrices/judge"][0])
        group = tables.runs[tables.runs["group"] == pairs["pairs"][0]["group"]]
        chosen = tables.runs["workload"].isin(group["workload"].unique()[:WORKLOADS])
        learned = tables.select_runs(chosen.to_numpy())
        recipe = EngineRecipe(Cell("logistic", LARGE), 1, 1, validity=True, missing=0.5, digest=_DIGEST)
        return Served(recipe.train(learned), _REF)

    @cached_property
    def coruns(self) -> tuple[CorunTables, ImpactTable]:
        tables = CorunTables.read(RAW / "corun")
        return tables, table_of(tables)

    @cached_property
    def static(self) -> Static:
        (tables, table), directory = self.coruns, self.scratch / "static"
        columns = table.model_features("contention")
        fitted = ImpactRecipe("contention", _IMPACT, columns, 0.03, 1, table.rate_features).fit(table.frame)
        names = {name: tuple(sorted(table.frame[name[:-1]].unique())) for name in ("machines", "tasks")}
        card = ImpactCard(model="contention", features=fitted.columns, params=_IMPACT, **names, **_CARD)
        TrainedImpact(fitted.model, card).write(directory)
        KnownTasks(tables.tasks, tables.hosts).write(directory)
        return load_static(str(directory))

    @cached_property
    def online(self) -> Online:
        tables, table = self.coruns
        sampled = SampledRuns.from_samples(tables.samples, 2.0)
        pairs = pair_runs(sampled.runs, table.frame).dropna()
        (model,) = fit_online_models(sampled, pairs, [second_stage_model("xgboost", 1)])
        card = OnlineCard(
            model="xgboost", events=model.events, seconds=2.0, blind_half_width=0.2,
            coefficients=tuple(map(tuple, model.coefficients.tolist())),
            machines=tuple(table.frame["machine"].unique()), **_CARD,
        )  # fmt: skip
        return Served(TrainedOnline(model, card), _REF)


def featurizing(_: Inputs) -> Work:
    sides = Sides.from_tables(draw_comparisons(FEATURIZED)[0])
    # a copy has nothing cached
    return lambda: feature_vectors(replace(sides))


def training_stages(_: Inputs) -> Work:
    """Return a function that validates and featurizes the shipped comparisons of one operation."""
    tables = ComparisonTables.read(RAW / "measured")
    chosen = tables.comparisons[tables.comparisons["operation"] == tables.comparisons["operation"].iloc[0]]
    results = tables.results[tables.results["operation"].isin(chosen["operation"])]
    small = replace(tables, comparisons=chosen.reset_index(drop=True), results=results.reset_index(drop=True))
    return lambda: training_tables(small, validate_comparisons(small).comparisons)


def timelines(inputs: Inputs) -> Work:
    root = inputs.scratch / "timelines"
    DrawnResults(versions=8, operations=2, threads=(1,)).write(root / "results")
    (root / "rules.xml").write_text(RULES)
    command = ["timelines", root / "rules.xml", root / "results", "-o", root / "pages", "--jobs", 1]

    def write_pages() -> None:
        with redirect_stdout(TextIOWrapper(BytesIO())), redirect_stderr(StringIO()):
            assert run_command([*map(str, command), "--model", str(inputs.model)]) == 0

    return write_pages


def reading(name: str, inputs: Inputs) -> Work:
    paths = [inputs.scratch / f"{name}-{side}.json" for side in ("base", "new")]
    for path in paths:
        write_large_file(name, SHAPES[name], path, int(MEGABYTES * 500_000))
    return lambda: deque(formats.stream_tables(name, paths, Problems()), maxlen=0)


def single_comparisons(inputs: Inputs) -> Work:
    bodies = [json.dumps({"comparisons": [comparison_json(row)]}).encode() for row in range(SINGLE)]
    return lambda: [answer_many([body], inputs.judge) for body in bodies]


def request_body(number: int, **options: bool) -> bytes:
    return json.dumps({"comparisons": [comparison_json(row) for row in range(number)], **options}).encode()


def family_requests(path: str, number: int, answer: Callable[[bytes], object], inputs: Inputs) -> Work:
    bodies = [body.encode() for body in inputs.bodies[path][:number]]
    return lambda: [answer(body) for body in bodies]


def command(arguments: list[str], inputs: Inputs) -> Work:
    """Return a function that runs a command of the working directory's code in a process of its own."""
    begin = "from serving.cli import main; main()"
    filled = [argument.replace("MODEL", str(inputs.model)) for argument in arguments]
    around = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    around |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    options = {"check": True, "stdout": subprocess.DEVNULL, "env": around}
    return partial(subprocess.run, [sys.executable, "-c", begin, *filled], **options)


#: What prepares each operation, by benchmark and operation.
OPERATIONS: dict[tuple[str, str], Callable[[Inputs], Work]] = {
    ("comparisons", "judging"): lambda inputs: partial(
        judge_tables, draw_comparisons(JUDGED)[0], inputs.judge
    ),
    ("comparisons", "features"): featurizing,
    ("comparisons", "validate-featurize"): training_stages,
    ("comparisons", "timelines"): timelines,
    **{("formats", name): partial(reading, name) for name in ("lnt", "perf-stat", "pytest-benchmark")},
    ("http", "one-comparison"): single_comparisons,
    ("http", "batch"): lambda inputs: partial(answer_json, request_body(BATCH), inputs.judge),
    ("http", "explained"): lambda inputs: partial(
        answer_json, request_body(EXPLAINED, explain=True), inputs.judge
    ),
    ("http", "matrices"): lambda inputs: family_requests(
        "/v1/matrices/judge", 2, partial(answer_matrices, served=inputs.engine), inputs
    ),
    ("http", "corun-static"): lambda inputs: family_requests(
        "/v1/corun/static", 10, partial(answer_static, static=inputs.static), inputs
    ),
    ("http", "corun-online"): lambda inputs: family_requests(
        "/v1/corun/online", 10, partial(answer_online, online=inputs.online), inputs
    ),
    ("http", "irup"): lambda inputs: family_requests("/v1/irup", 1, answer_irup, inputs),
    ("commands", "help"): partial(command, ["--help"]),
    ("commands", "judge"): partial(command, ["judge", "docs/samples/mine.json", "--model", "MODEL"]),
}
