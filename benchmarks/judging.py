"""How long verdicts take: a command from cold, and 100,000 of them in one process.

Run it with ``python -m benchmarks.judging``; it writes ``docs/results/judging.md``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.table import Table, best, machine
from data.comparisons.sides import Sides
from data.comparisons.tables import COMPARISON_DTYPES, RESULT_DTYPES, ComparisonTables
from data.tables.specs import typed
from features.comparisons.vectors import FEATURES, vectors
from serving.comparisons.body import answer_json
from serving.comparisons.judge import Verdict, judge
from serving.models import ModelRef, Served
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import Card, TrainedModel
from training.estimators.catalogue import CATALOGUE

VERDICTS = 100_000
#: So many are judged one at a time.
SINGLY = 200
COLD = 300
MODELS = ("logistic", "xgboost", "random-forest")
#: Of synthetic comparisons: samples a side, and the share that is slower.
REPETITIONS = 5
SLOWER_SHARE = 0.2


def synthetic(
    comparisons: int, seed: int = 0, threads: Sequence[int] = (1, 4)
) -> tuple[ComparisonTables, np.ndarray]:
    """Make comparisons with five repetitions a side, a configuration for each number of threads.

    Returns
    -------
    tuple of (ComparisonTables, ndarray of bool)
        With which comparisons are 15 % slower: every fifth, at random.
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
    asked = pd.DataFrame({"comparison_id": name, "operation": name}).assign(**shared, **orders)
    nobody = ComparisonTables.of_rows([], [], []).labels
    return ComparisonTables(typed(results, RESULT_DTYPES), typed(asked, COMPARISON_DTYPES), nobody), slower


def trained(name: str) -> TrainedModel:
    """Fit the catalogue's model `name`, with its first configuration, on 1,000 synthetic comparisons."""
    from training.estimators.pipelines import answering, pipeline

    tables, slower = synthetic(1000, seed=1)
    features = vectors(Sides.of(tables))
    model = CATALOGUE[name]
    fitted = pipeline(model, model.start, slower.astype(int), 0).fit(features, slower.astype(int))
    names, ordinary = FEATURES, np.median(np.nan_to_num(features[~slower]), axis=0)
    reference = dict(zip(names, ordinary.tolist(), strict=True))
    card = Card(name, names, 0.5, dict(model.start), reference, "0" * 64, 0)
    return TrainedModel(answering(fitted), card)


def singly(served: Served) -> float:
    """Return the seconds per verdict when requests hold a comparison each, from bytes to bytes."""
    bodies = [json.dumps({"comparisons": [_asked(row)]}).encode() for row in range(SINGLY)]
    return best(lambda: [answer_json(body, served) for body in bodies], 2) / SINGLY


def verdict_rows() -> Iterator[tuple[object, ...]]:
    """Measure verdicts with features, probability and reasons, as objects that can be read."""
    tables, _ = synthetic(VERDICTS)
    for name in MODELS:
        model = Served(ReadyModel.of(trained(name)), ModelRef(name, "1", "benchmark"))
        together = best(partial(_verdicts, tables, model), 2) / VERDICTS
        alone = singly(model)
        yield f"a verdict, {name}", f"{together * 1e6:.1f} us", f"{alone * 1e6:.0f} us", alone / together


def _verdicts(tables: ComparisonTables, served: Served) -> Sequence[Verdict]:
    return judge(tables, served).verdicts


def cold_rows() -> Iterator[tuple[object, ...]]:
    """Measure commands in processes of their own."""
    program = str(Path(sys.executable).with_name("perfjudge"))
    with tempfile.TemporaryDirectory() as temporary:
        model, request = Path(temporary) / "model", Path(temporary) / "request.json"
        trained("random-forest").write(model)
        request.write_text(json.dumps({"comparisons": [_asked(row) for row in range(COLD)]}))
        judging = ["judge", str(request), "--model", str(model), "--json"]
        commands = {"--help": ["--help"], f"judge on {COLD} comparisons": judging}
        for told, arguments in commands.items():
            run = partial(subprocess.run, [program, *arguments], check=True, stdout=subprocess.DEVNULL)
            yield f"perfjudge {told}, cold", f"{best(run, 2):.2f} s", None, None


def _asked(row: int) -> dict[str, object]:
    rng = np.random.default_rng(row)
    sides = {side: rng.normal(100, 2, REPETITIONS).tolist() for side in ("baseline", "target")}
    named = {"comparison_id": f"c{row}", "benchmark": "synthetic", "operation": f"operation-{row}"}
    configurations = [{"threads": threads, **sides} for threads in (1, 4)]
    return named | {"machine": "m", "unit": "1/s", "better": "higher", "configurations": configurations}


def main() -> None:
    """Measure, print and write the table."""
    Table(
        "How long verdicts take",
        "python -m benchmarks.judging",
        {"what": "", "perfjudge": "", "one at a time": "", "ratio": ".0f"},
        [*verdict_rows(), *cold_rows()],
        [
            f"A verdict: {VERDICTS:,} synthetic comparisons of two configurations, judged in one call:",
            f"{REPETITIONS} samples a side; features, probability, reasons and verdict objects.",
            f"One at a time: {SINGLY} requests of one such comparison, from JSON to JSON.",
            "The shorter of two runs each.",
            machine(),
        ],
    ).publish("judging")


if __name__ == "__main__":
    main()
