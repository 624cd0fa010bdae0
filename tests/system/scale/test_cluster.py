"""Tasks on a real Dask scheduler and real workers, one of which is killed half-way."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from data.parallel import ClusterError, Compute, side_by_side
from tests.families import small_family
from tests.imports import copied
from tests.matrix_pairs import pairs
from tests.system.conftest import wait_until
from tests.system.scale.cluster import Cluster, squared
from training.comparisons.evaluate import evaluate
from training.comparisons.train import train
from training.comparisons.tune import tune
from training.matrices.chunks import LargeRecipe
from training.matrices.schemes import LARGE, Cell


@pytest.fixture
def cluster(tmp_path, preloaded_programs):
    (directory := tmp_path / "cluster").mkdir()
    with closing(Cluster(directory, preloaded_programs)) as started:
        yield started


def written(path):
    return wait_until(lambda: path.exists() and path.read_text())


def told(cluster, tasks=((1, None),)):
    with pytest.raises(ClusterError) as raised:
        side_by_side(squared, tasks, cluster.compute, "")
    return str(raised.value)


def test_tasks_of_a_killed_worker_move_to_another(cluster, tmp_path):
    sign = tmp_path / "sign"
    workers = {one.pid: one for one in (cluster.work(), cluster.work())}
    tasks = [(number, sign if number == 3 else None) for number in range(40)]
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(side_by_side, squared, tasks, cluster.compute, "")
        killed = int(written(sign))
        workers[killed].send_signal(signal.SIGKILL)
        results = found.result(60)
    assert [result for result, _ in results] == [number**2 for number in range(40)]
    assert results[3][1] in workers.keys() - {killed}


def trained(family):
    for stage in (tune, train, evaluate):
        stage(family)
    return family.paths


def files(places):
    """Return the bytes of what was found and of what it is worth; a model's file tells the time, too."""
    found = [path for root in (places.reports, places.tuned) for path in root.rglob("*.*")]
    return {path.name: path.read_bytes() for path in found}


def test_a_pipeline_on_a_killed_worker_writes_the_same(cluster, tmp_path, monkeypatch):
    here = trained(small_family(tmp_path / "here", models=("logistic",), trials=3))
    monkeypatch.setenv("PERFJUDGE_SCHEDULER", cluster.address)
    family = small_family(tmp_path / "there", models=("logistic",), trials=3)
    assert family.params.compute == cluster.compute
    killed, _ = cluster.work(), cluster.work()
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(trained, family)
        # a search has begun
        wait_until(lambda: found.done() or [*family.paths.studies.rglob("*.log")])
        killed.send_signal(signal.SIGKILL)
        there = found.result(120)
    assert files(there) == files(here)


def test_an_engine_learns_the_same_from_chunks_on_workers(cluster, tmp_path):
    cluster.work()
    cluster.work()
    pairs(groups=3, cases=5).write(tmp_path / "source")
    unseen = pairs(groups=3, cases=5, seed=2)
    told = []
    for compute in (Compute(2), cluster.compute):
        recipe = LargeRecipe(Cell("logistic", LARGE), 2, 7, 0.5, compute, 90)
        trained = recipe.train(tmp_path / "source", tmp_path / str(compute.jobs))
        told.append(trained.engine.judge_pairs(unseen)["probability"].tolist())
    assert told[0] == told[1]


def test_unusable_schedulers_and_workers_are_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("data.parallel.PATIENCE", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "tcp://127.0.0.1"):
        with pytest.raises(ClusterError, match=f"^{address}: no Dask scheduler answers"):
            side_by_side(squared, [(1, None)], Compute(scheduler=address), "")
    monkeypatch.setattr("data.parallel.PATIENCE", 3)
    assert told(cluster) == f"{cluster.address}: the scheduler has no worker"
    monkeypatch.setattr("data.parallel.PATIENCE", 30)
    other, here = tmp_path / "other", os.environ.get("OPENBLAS_CORETYPE", "unset")
    copied(other)
    with (other / "data/parallel.py").open("a") as code:
        code.write("# another version\n")
    for unlike, why in (
        ({"threads": 2}, "has 2 threads; expected a worker with --nthreads 1"),
        ({"OPENBLAS_CORETYPE": "Nehalem"}, f"has OPENBLAS_CORETYPE Nehalem; expected {here} as here"),
        ({"code": other}, "has perfjudge .* as here"),
    ):
        worker = cluster.work(**unlike)
        assert re.search(why, told(cluster))
        worker.kill()
        worker.wait()


def test_a_scheduler_lost_during_work_is_named(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("data.parallel.PATIENCE", 4)
    sign = tmp_path / "sign"
    cluster.work()
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(side_by_side, squared, [(1, sign)], cluster.compute, "")
        written(sign)
        cluster.scheduler.kill()
        with pytest.raises(ClusterError, match="the scheduler went away"):
            found.result(60)
