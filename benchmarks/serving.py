"""Throughput and latency of the server, compared with MLflow's own server of the same model.

Run it with ``python -m benchmarks.serving`` after ``dvc repro``, on an idle machine; it needs ``wrk``
(Debian has it) and writes ``docs/results/serving.md``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pandas as pd
import psutil

from benchmarks.table import (
    PERFJUDGE,
    Table,
    load_note,
    processor_seconds,
    program_environment,
    publish,
    require_program,
    time_call,
)
from data.comparisons.tables import ComparisonTables
from data.corun.tables import SAMPLE_DTYPES
from data.matrices.tables import SIDES, MatrixTables
from training.comparisons.family import FeatureTable
from training.comparisons.stored import ReadyModel, TrainedModel
from training.estimators.catalogue import CATALOGUE, build_pipeline, without_sampler
from training.registry.champions import CHAMPION, locate_model, tracking_uri

CONNECTIONS = 16
#: Seconds of one load test, and number of rounds; the result of median throughput counts.
SECONDS, ROUNDS = 8, 3
#: Requests sent while the memory is measured, and comparisons of a batch request.
MEMORY, BATCH = 100_000, 10_000
#: Trees of the largest forest, and the folder of the trained models.
TREES, _MODELS = 500, Path("models/comparisons")
#: Seconds of co-run samples in an online request.
SAMPLED = 2.0
#: Worker processes that answer the endpoints of the other families.
WORKERS = 2
#: Wanted answers a second of the endpoints of the other families, and the p99 in ms that all are to keep.
GOALS = {"/v1/matrices/judge": 100, "/v1/corun/static": 200, "/v1/corun/online": 200, "/v1/irup": 100}
SLOWEST = 100
#: Script of wrk: sends the bodies in turn, and prints the figures as JSON in the end.
_SCRIPT = """
local bodies, next_one = {}, 0
function init(args)
  wrk.headers["Content-Type"] = "application/json"
  for line in io.lines(args[1]) do bodies[#bodies + 1] = wrk.format("POST", nil, nil, line) end
end
function request()
  if #bodies == 0 then return wrk.format() end
  next_one = next_one % #bodies + 1
  return bodies[next_one]
end
function done(summary, latency, requests)
  local e = summary.errors
  print(string.format('{"answers": %d, "seconds": %f, "p50": %f, "p99": %f, "failed": %d}', summary.requests,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


class LoadTest(NamedTuple):
    answers: int
    seconds: float
    p50: float
    p99: float
    failed: int
    processor_seconds: float  # of the server

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds

    @property
    def processor_time(self) -> float:
        """Processor time of an answer in milliseconds; unlike throughput it hardly depends on other load."""
        return 1e3 * self.processor_seconds / self.answers


def run_load_test(process: int, url: str, bodies: Sequence[str] = (), seconds: int = SECONDS) -> LoadTest:
    """Send the bodies to a server in turn over `CONNECTIONS` connections; without bodies, GET requests."""
    before = processor_seconds(process)
    with tempfile.TemporaryDirectory() as scratch:
        script, lines = Path(scratch) / "load.lua", Path(scratch) / "bodies"
        script.write_text(_SCRIPT, encoding="utf-8")
        lines.write_text("".join(f"{body}\n" for body in bodies), encoding="utf-8")
        options = f"-t1 -c{CONNECTIONS} -d{seconds} --timeout 60".split()
        command = ["wrk", *options, "-s", str(script), url, "--", str(lines)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = processor_seconds(process) - before
    return LoadTest(**json.loads(output.splitlines()[-1]), processor_seconds=spent)


@contextmanager
def running_server(*command: object, path: str = "/readyz", pause: float = 0.2) -> Iterator[tuple[str, int]]:
    """Run a server at a free port while the block lasts; yield address and process id once `path` answers.

    `pause`: the seconds between two questions.
    """
    # MLflow finds uvicorn by PATH and starts it through a shell, so the whole process group is ended
    process_options: dict[str, Any] = {"env": program_environment(), "start_new_session": True}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments, url = [*map(str, command), "--port", str(port)], f"http://127.0.0.1:{port}"
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(arguments, stdout=log, stderr=log, **process_options) as server,
    ):
        try:
            while True:
                with suppress(OSError), urllib.request.urlopen(url + path, timeout=5):  # noqa: S310 - ours
                    break
                if server.poll() is not None:
                    log.seek(0)
                    raise SystemExit(log.read().decode())
                time.sleep(pause)
            yield url, server.pid
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def post_body(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - our own address
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
        answer.read()


def shipped_comparisons() -> list[dict[str, Any]]:
    tables, requests = ComparisonTables.read(Path("data/interim/comparisons")), []
    by_operation = dict(list(tables.results.groupby(["benchmark", "operation", "machine"])))
    for row in tables.comparisons.itertuples():
        results, configurations = by_operation[row.benchmark, row.operation, row.machine], []
        ends = {"baseline": (row.baseline_from, row.baseline_to), "target": (row.target_from, row.target_to)}
        for threads, rows in results.groupby("threads"):
            sides = {side: rows["value"][rows["order"].between(*ends[side])].tolist() for side in ends}
            if all(sides.values()):
                configurations.append({"threads": threads, **sides})
        named = {name: getattr(row, name) for name in ("comparison_id", "benchmark", "operation", "machine")}
        requests.append({**named, "better": results["better"].iloc[0], "configurations": configurations})
    return requests


def rows_for_mlflow() -> list[str]:
    """Return request bodies for MLflow's server, each with the vector of one shipped comparison."""
    with locate_model(lambda: "regression-comparison", None) as (directory, _):
        names = json.loads((directory / "extra_files/card.json").read_text())["features"]
    vectors = pd.read_parquet("data/processed/comparisons/features.parquet")[names].astype(float)
    rows = vectors.astype(object).where(vectors.notna(), None).to_numpy().tolist()
    return [json.dumps({"dataframe_split": {"columns": names, "data": [row]}}) for row in rows]


def family_bodies(tables: Path = Path("data/interim")) -> dict[str, list[str]]:
    """Return request bodies for the endpoints of the other families; `tables` has a folder of each."""
    matrices = MatrixTables.read(tables / "matrices")
    return {
        "/v1/matrices/judge": list(pair_bodies(matrices, matrices.raw_metrics, 20)),
        "/v1/corun/static": list(_corun_bodies(tables / "corun")),
        "/v1/corun/online": list(_online_bodies(tables / "corun", 20)),
        "/v1/irup": list(_profile_bodies(tables / "fingerprints")),
    }


def pair_bodies(tables: MatrixTables, metrics: Sequence[str], count: int) -> Iterator[str]:
    """Yield a request for each of the first `count` pairs in `tables`, with these metrics."""
    for pair_id, rows in list(tables.runs.dropna(subset="pair_id").groupby("pair_id"))[:count]:
        pair = {"pair_id": pair_id, **rows.iloc[0][["workload", "group", "machine"]].to_dict()}
        for side in SIDES:
            columns = _column_lists(rows.loc[rows["side"] == side, metrics])
            pair[side] = {"version": f"{side} of it", "metrics": columns}
        yield json.dumps({"pairs": [pair]})


def _corun_bodies(tables: Path) -> Iterator[str]:
    pairs = pd.read_parquet(tables / "pairs.parquet", columns=["task", "corunner_1", "machine"])
    for task, corunner, machine in pairs.drop_duplicates().itertuples(index=False):
        corun = {"task": task, "corunners": [corunner], "machine": machine}
        yield json.dumps({"coruns": [corun]})


def _online_bodies(tables: Path, count: int) -> Iterator[str]:
    samples = pd.read_parquet(tables / "samples.parquet")
    events = [name for name in samples.columns if name not in SAMPLE_DTYPES]
    first = samples[(samples["t_seconds"] <= SAMPLED) & (samples["repetition"] == 1)]
    alone = dict(list(first[first["phase"] == "solo"].groupby("task")))
    together = first[first["phase"] == "corun"].groupby(["task", "corunners"])
    for (task, _), rows in list(together)[:count]:
        body = {}
        for side, side_rows in {"solo": alone[task], "corun": rows}.items():
            columns = _column_lists(side_rows[events])
            body[side] = {"t_seconds": side_rows["t_seconds"].tolist(), "events": columns}
        yield json.dumps(body)


def _profile_bodies(tables: Path) -> Iterator[str]:
    files = (tables / f"{name}.parquet" for name in ("machines", "applications", "hosts"))
    rates, values, hosts = map(pd.read_parquet, files)
    cpus = hosts.set_index("machine")["cpu"]
    machines = []
    for machine, rows in rates[rates["threads"] == 1].groupby("machine"):
        by_stressor = rows.groupby("stressor")["bogo_ops_per_second"].first().dropna().to_dict()
        machines.append({"machine": machine, "cpu": cpus[machine], "rates": by_stressor})
    for name, rows in values.groupby("application"):
        values_by_machine = rows.groupby("machine")["value"].agg(list).to_dict()
        yield json.dumps({"machines": machines, "application": {"name": name, "values": values_by_machine}})


def _column_lists(frame: pd.DataFrame) -> dict[str, list[float | None]]:
    measured = frame.loc[:, frame.notna().any()].astype(object)
    return measured.where(measured.notna(), None).to_dict("list")


def model_rows(bodies: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """Measure a server with each trained model, and with a forest of 500 trees, beside /healthz."""
    with tempfile.TemporaryDirectory() as directory:
        large = write_large_forest(Path(directory))
        for model in (*sorted(_MODELS.iterdir()), large):
            with running_server(PERFJUDGE, "serve", "--model", model) as (url, process):
                judge = process, f"{url}/v1/comparisons/judge", bodies
                asks = {"health": (process, f"{url}/healthz"), "judge": judge}
                health, judged = run_rounds(asks, SECONDS // 2).values()
            shares = judged.per_second / health.per_second, health.processor_time / judged.processor_time
            name = f"random-forest, {TREES} trees" if model == large else model.name
            yield name, judged.per_second, judged.p99, *shares


def write_large_forest(directory: Path) -> Path:
    """Fit and write a forest of `TREES` trees, with the shipped examples; return `directory`."""
    name = "random-forest"
    shipped = ReadyModel.read(_MODELS / name)
    table = FeatureTable.read(Path("data/processed/comparisons/features.parquet"), shipped.card.features)
    entry, examples = CATALOGUE[name], table.examples
    pipeline = build_pipeline(entry, {**entry.start, "trees": TREES}, examples.y, 0, table.constraints)
    fitted = without_sampler(pipeline.fit(examples.x, examples.y))
    TrainedModel(fitted, shipped.card).write(directory)
    if shipped.examples is not None:
        shipped.examples.write(directory)
    return directory


def memory_rows(process: int, url: str, bodies: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """Yield a row with the resident memory, then send `MEMORY` requests, and yield one after each fifth."""
    n_sent, memory = 0, psutil.Process(process).memory_info
    yield "memory with all models, MB", memory().rss / 2**20
    for part in range(1, 6):
        while n_sent < part * MEMORY / 5:
            n_sent += run_load_test(process, url, bodies, seconds=2).answers
        yield f"memory after {n_sent:,} requests, MB", memory().rss / 2**20


def run_rounds(asks: Mapping[str, Sequence[Any]], seconds: int = SECONDS) -> dict[str, LoadTest]:
    """Run all load tests in turn, `ROUNDS` times; return the result of median throughput of each."""
    results = [[run_load_test(*ask, seconds=seconds) for ask in asks.values()] for _ in range(ROUNDS)]
    by_throughput = (sorted(tests, key=lambda test: test.per_second) for tests in zip(*results, strict=True))
    return {name: tests[ROUNDS // 2] for name, tests in zip(asks, by_throughput, strict=True)}


def measure_families(families: Mapping[str, Sequence[str]]) -> dict[str, LoadTest]:
    """Send the bodies of each path to a server of `WORKERS` processes, after a test that loads the models."""
    with running_server(PERFJUDGE, "serve", "--workers", WORKERS) as (url, process):
        results = {}
        for path, bodies in families.items():
            run_load_test(process, url + path, bodies)
            results[path] = run_load_test(process, url + path, bodies, seconds=2 * SECONDS)
    return results


def main() -> None:
    require_program("wrk")
    os.environ.setdefault("MLFLOW_TRACKING_URI", tracking_uri())
    shipped, vectors, families = shipped_comparisons(), rows_for_mlflow(), family_bodies()
    singles = [json.dumps({"comparisons": [entry]}) for entry in shipped]
    explained = [json.dumps({"comparisons": [entry], "explain": True}) for entry in shipped]
    batch = [{**shipped[n % len(shipped)], "comparison_id": f"{n}"} for n in range(BATCH)]
    mlflow = (sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local")
    model = f"models:/regression-comparison@{CHAMPION}"
    with (
        running_server(PERFJUDGE, "serve") as (ours, process),
        running_server(*mlflow, "-m", model, path="/ping") as (theirs, mlflow_process),
    ):
        judge = f"{ours}/v1/comparisons/judge"
        asks = {
            "perfjudge, /healthz": (process, f"{ours}/healthz"),
            "perfjudge, one comparison": (process, judge, singles),
            "mlflow models serve, one vector": (mlflow_process, f"{theirs}/invocations", vectors),
            "perfjudge, one comparison, explained": (process, judge, explained),
        }
        results = run_rounds(asks)
        body = json.dumps({"comparisons": batch}).encode()
        together = median(time_call(partial(post_body, judge, body))[0] for _ in range(5))
        for path, bodies in families.items():
            # loads the model of the endpoint
            post_body(ours + path, bodies[0].encode())
        memory = [*memory_rows(process, judge, singles)]
    others = measure_families(families)
    health, single, vector, _ = results.values()
    measured = {"answers a second": ",.0f", "median, ms": ".2f", "p99, ms": ".2f"}
    columns = {"what": "", **measured, "share of /healthz": ".3f", "processor time, ms": ".2f", "failed": "d"}
    goals = [
        ("one comparison, times MLflow's throughput", single.per_second / vector.per_second, "at least 20"),
        ("one comparison, p99 in ms", single.p99, "under 15"),
        ("one comparison, share of /healthz", single.per_second / health.per_second, "at least 0.33"),
        (f"a batch of {BATCH:,} comparisons, s (median of 5)", together, "under 0.5"),
        *(
            (f"{path}, answers a second", others[path].per_second, f"at least {GOALS[path]}")
            for path in others
        ),
        *((f"{path}, p99 in ms", entry.p99, f"under {SLOWEST}") for path, entry in others.items()),
        *((*row, "under 500, flat") for row in memory),
    ]
    answered = []
    for name, entry in {**results, **others}.items():
        share = entry.per_second / health.per_second
        figures = entry.p50, entry.p99, share, entry.processor_time, entry.failed
        answered.append((name, entry.per_second, *figures))
    notes = [
        f"{CONNECTIONS} connections, a process each, wrk on the same machine;",
        f"{SECONDS} s in turn, of {ROUNDS} the one of median throughput.",
        f"Endpoints of other families: once, by {WORKERS} workers that have loaded their models.",
        "Both answer with the same champion: MLflow's gets vectors and returns probabilities,",
        "ours gets samples and returns verdicts, each with its reason in a sentence; explained:",
        "also with evidence, attributions, nearest examples and counterfactuals.",
        load_note(),
    ]
    model_columns = {"model": "", "answers a second": ",.0f", "p99, ms": ".2f"}
    model_columns |= {"share of /healthz": ".2f", "by processor time": ".2f"}
    model_notes = ["The models of the search, and a larger one; wanted: a share of at least 0.33."]
    tables = [
        Table("Answers per second of the server", columns, answered, notes),
        Table("Goals", {"what": "", "measured": ",.2f", "wanted": ""}, goals),
        Table("One comparison by each model", model_columns, [*model_rows(singles)], model_notes),
    ]
    publish("serving", tables)


if __name__ == "__main__":
    main()
