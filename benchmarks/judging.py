"""How long verdicts take: a command including its start, and 100,000 comparisons in one process.

Run it with ``python -m benchmarks.judging``; it writes ``docs/results/judging.md``.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.table import PERFJUDGE, Table, load_average, load_note, shortest_time
from data.comparisons.posted import named_sides
from data.comparisons.request import read_request
from data.comparisons.sides import Sides
from data.comparisons.tables import COMPARISON_DTYPES, RESULT_DTYPES, ComparisonTables
from data.tables.specs import with_dtypes
from features.comparisons.vectors import FEATURES, feature_vectors
from serving.comparisons.endpoints import answer_json
from serving.comparisons.judge import Judgement, judge_sides, judge_tables
from serving.comparisons.model import Judge
from serving.models import ModelRef, Served
from training.comparisons.family import FeatureTable
from training.comparisons.stored import Card, ReadyModel, TrainedModel
from training.comparisons.train import write_examples
from training.estimators.catalogue import CATALOGUE

VERDICTS = 100_000
#: Comparisons judged one at a time, and earlier builds in their history.
SINGLY, BUILDS = 200, 20
COLD = 300
MODELS = ("logistic", "xgboost", "random-forest", "knn-distance")
#: Samples per side and share of slower targets of the synthetic comparisons.
REPETITIONS = 5
SLOWER_SHARE = 0.2


def draw_comparisons(
    comparisons: int, seed: int = 0, threads: Sequence[int] = (1, 4)
) -> tuple[ComparisonTables, np.ndarray]:
    """Draw comparisons with five repetitions a side and a configuration per number of threads.

    Returns the tables, and flags of the comparisons whose target is slower.
    """
    rng = np.random.default_rng(seed)
    slower = rng.random(comparisons) < SLOWER_SHARE
    rows = pd.MultiIndex.from_product(
        [range(comparisons), threads, (0, 1), range(REPETITIONS)], names=["row", "threads", "order", "k"]
    ).to_frame(index=False)
    name = np.array([f"operation-{row}" for row in range(comparisons)], dtype=object)
    factor = np.where(slower[rows["row"]] & (rows["order"] == 1), 0.85, 1.0)
    value = 1000.0 * rows["threads"] * rng.normal(1, 0.02, len(rows)) * factor
    shared = {"benchmark": "synthetic", "machine": "m"}
    results = rows[["threads", "order"]].assign(
        operation=name[rows["row"]], value=value, better="higher", stat=None, measured_at=None, **shared
    )
    orders = {"baseline_from": 0, "baseline_to": 0, "target_from": 1, "target_to": 1}
    comparison_frame = pd.DataFrame({"comparison_id": name, "operation": name}).assign(**shared, **orders)
    nobody = ComparisonTables.from_rows([], [], []).labels
    return ComparisonTables(
        with_dtypes(results, RESULT_DTYPES), with_dtypes(comparison_frame, COMPARISON_DTYPES), nobody
    ), slower


def write_model(name: str, directory: Path) -> Path:
    """Fit and write the catalogue's model `name`, with first parameters, on 1,000 synthetic comparisons."""
    from training.estimators.catalogue import build_pipeline, without_sampler

    tables, slower = draw_comparisons(1000, seed=1)
    features = feature_vectors(Sides.from_tables(tables))
    model = CATALOGUE[name]
    fitted = build_pipeline(model, model.start, slower.astype(int), 0).fit(features, slower.astype(int))
    table = _feature_table(tables, features, slower)
    card = Card(name, FEATURES, 0.5, dict(model.start), table.reference_medians(), "0" * 64, 0)
    whole, folder = TrainedModel(without_sampler(fitted), card), directory / name
    whole.write(folder)
    labels = table.frame[["comparison_id", "status"]].assign(labelled_by="nobody", labelled_at=pd.NaT)
    labels.to_parquet(directory / "labels.parquet")
    write_examples(whole, table, table.examples, directory / "labels.parquet", folder)
    return folder


def _feature_table(tables: ComparisonTables, features: np.ndarray, slower: np.ndarray) -> FeatureTable:
    named = tables.comparisons[["comparison_id", "benchmark", "operation"]]
    status = np.where(slower, "fail", "pass")
    head = named.assign(status=status, fold_group=named["operation"]).reset_index(drop=True)
    feature_columns = pd.DataFrame(features, columns=[*FEATURES])
    return FeatureTable(pd.concat([head, feature_columns], axis=1), FEATURES, "0" * 64)


def verdict_rows(directory: Path) -> Iterator[tuple[object, ...]]:
    """Measure verdicts: many at once, and one at a time, with a history and from request to response."""
    tables, _ = draw_comparisons(VERDICTS)
    bodies = {"": _request_bodies(0), f", {BUILDS} earlier builds": _request_bodies(BUILDS)}
    for name in MODELS:
        served = Served(ReadyModel.read(write_model(name, directory)), ModelRef(name, "1", "benchmark"))
        explain_all = partial(_explain, with_counterfactuals=True)
        batch_runs: dict[str, Callable[[], object]] = {
            "judged": partial(judge_tables, tables, served),
            "with reasons": lambda: _read_reasons(judge_tables(tables, served)),  # noqa: B023
            "told": lambda: _explain(judge_tables(tables, served)),  # noqa: B023 - called at once
            "told, and what would flip it": lambda: explain_all(judge_tables(tables, served)),  # noqa: B023
        }
        for what, run in batch_runs.items():
            yield f"{name}: {what}, of {VERDICTS:,}", f"{shortest_time(run, 2) / VERDICTS * 1e6:.1f} us"
        answers: dict[str, Callable[[bytes], object]] = {
            "judged": partial(_judge_body, served),
            "with reasons": lambda body: _read_reasons(_judge_body(served, body)),  # noqa: B023
            "told": lambda body: _explain(_judge_body(served, body)),  # noqa: B023
            "told, and what would flip it": lambda body: explain_all(_judge_body(served, body)),  # noqa: B023
            "from JSON to JSON": lambda body: answer_json(body, served),  # noqa: B023
        }
        for past, requests in bodies.items():
            for what, answer in answers.items():
                alone = shortest_time(lambda: [answer(body) for body in requests], 2) / SINGLY  # noqa: B023
                yield f"{name}: one alone{past}, {what}", f"{alone * 1e6:.1f} us"


def _read_reasons(judgement: Judgement) -> None:
    for verdict in judgement.iterate_verdicts():
        _ = verdict.reason


def _explain(judgement: Judgement, *, with_counterfactuals: bool = False) -> None:
    """Compute the full explanation of each verdict, counterfactuals only if `with_counterfactuals`."""
    for verdict in judgement.iterate_verdicts():
        _ = (
            verdict.reasons,
            verdict.words,
            verdict.examples,
            verdict.out_of_distribution,
            verdict.counterfactual if with_counterfactuals else None,
        )


def _judge_body(served: Judge, body: bytes) -> Judgement:
    request = read_request(body)
    assert request is not None, "the request is right"
    return judge_sides(named_sides(request.comparisons), served)


def _request_bodies(builds: int) -> list[bytes]:
    return [json.dumps({"comparisons": [_comparison_json(row, builds)]}).encode() for row in range(SINGLY)]


def cold_rows() -> Iterator[tuple[object, ...]]:
    """Measure commands, each in a new process."""
    with tempfile.TemporaryDirectory() as temporary:
        model, request = write_model("random-forest", Path(temporary)), Path(temporary) / "request.json"
        request.write_text(json.dumps({"comparisons": [_comparison_json(row) for row in range(COLD)]}))
        judging = ["judge", str(request), "--model", str(model), "--json"]
        commands = {"--help": ["--help"], f"judge on {COLD} comparisons": judging}
        for title, arguments in commands.items():
            run = partial(subprocess.run, [PERFJUDGE, *arguments], check=True, stdout=subprocess.DEVNULL)
            yield f"perfjudge {title}, cold", f"{shortest_time(run, 2):.2f} s"


def _comparison_json(row: int, builds: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(row)
    configurations = []
    for threads in (1, 4):
        sides = {side: rng.normal(100, 2, REPETITIONS).tolist() for side in ("baseline", "target")}
        past = rng.normal(100, 2, (builds, REPETITIONS)).tolist()
        configurations.append({"threads": threads, **sides, "history": past})
    named = {"comparison_id": f"c{row}", "benchmark": "synthetic", "operation": f"operation-{row}"}
    return named | {"machine": "m", "unit": "1/s", "better": "higher", "configurations": configurations}


def main() -> None:
    before = load_average()
    with tempfile.TemporaryDirectory() as temporary:
        measured = [*verdict_rows(Path(temporary)), *cold_rows()]
    Table(
        "How long verdicts take",
        {"what": "", "perfjudge": ""},
        measured,
        [
            "A time is that of one verdict. Synthetic comparisons of two configurations,",
            f"{REPETITIONS} samples a side, judged in one call by models fitted to 1,000 others.",
            "Judged: sides from tables or JSON, features, probability, contributions, verdicts as an array.",
            "With reasons: that, and of each one sentence.",
            "Told: also an object with features, sentences, labelled comparisons and warning.",
            f"One alone: {SINGLY} requests of one comparison; JSON has only the reasons.",
            "The shorter of two runs each, on one core.",
            load_note(before),
        ],
    ).publish("judging")


if __name__ == "__main__":
    main()
