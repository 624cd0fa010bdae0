"""Run tasks in parallel processes or on a Dask cluster, with results that do not depend on the place."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, TypeVar

from data.errors import InputError
from data.stage import PINNED, collect_rarely, end_with_parent
from data.tables.files import digest_of

if TYPE_CHECKING:
    from distributed import Client

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Seconds to wait for a scheduler, and for its first worker.
PATIENCE = 10
#: Queued tasks per worker; more would only fill the scheduler's memory.
_AHEAD = 3
_GONE = "the scheduler went away"
#: Libraries that results depend on.
_LIBRARIES = (
    "imbalanced-learn", "joblib", "numpy", "optuna", "pandas", "pyarrow", "scikit-learn", "scipy",
    "xgboost-cpu",
)  # fmt: skip


class ClusterError(InputError):
    """A Dask cluster that cannot be used: unreachable, without workers, or with workers of other versions."""


@cache
def _dependency_versions() -> dict[str, str]:
    """Return the versions of all that results depend on, by name; that of our own code is a digest."""
    root = Path(__file__).parents[1]
    layers = ("data", "features", "training")
    code = (path for layer in layers for path in sorted((root / layer).rglob("*.py")))
    python = ".".join(map(str, sys.version_info[:3]))
    pinned = {name: os.environ.get(name, "unset") for name in PINNED}
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"perfjudge": digest_of(*code)[:12], "Python": python} | libraries | pinned


def _difference_from(expected: dict[str, str]) -> str:
    for name, here in _dependency_versions().items():
        if here != expected[name]:
            return f"has {name} {here}; expected {expected[name]} as here"
    return ""


def _run_checked(expected: dict[str, str], function: Callable[[Task], Result], task: Task) -> Result:
    """Run a task on a worker, which may have joined after the check of all workers."""
    difference = _difference_from(expected)
    if difference:
        raise ClusterError(difference, place=f"worker on {gethostname()}")
    return function(task)


def on_cluster(scheduler: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """Yield the results of `function` for all tasks, in the order in which workers finish them.

    `scheduler` is the address of a Dask scheduler, such as ``tcp://host:8786``. An exception of `function` is
    raised here. ClusterError, an InputError, if the scheduler or its first worker does not answer within
    `PATIENCE` (10) seconds, the scheduler ends, a worker has several threads or other versions of code or
    libraries than this process, or every worker that takes a certain task dies.
    """
    from distributed import KilledWorker, as_completed
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    with _connected_client(scheduler) as client:
        pending_tasks, running = iter(tasks), as_completed()

        def submit_waiting() -> None:
            free = _AHEAD * max(len(_threads_by_worker(client, scheduler)), 1) - running.count()
            for task in islice(pending_tasks, max(free, 0)):
                running.add(client.submit(_run_checked, _dependency_versions(), function, task, pure=False))

        try:
            submit_waiting()
            for future in running:
                submit_waiting()
                yield future.result()
        except KilledWorker as exc:
            problem = "every worker that took a certain task died; has it enough memory?"
            raise ClusterError(problem, place=scheduler) from exc
        except (FutureCancelledError, CommClosedError) as exc:
            raise ClusterError(_GONE, place=scheduler) from exc


def _threads_by_worker(client: Client, scheduler: str) -> dict[str, int]:
    try:
        return dict(client.nthreads())
    except OSError as exc:
        raise ClusterError(_GONE, place=scheduler) from exc


@contextmanager
def _connected_client(scheduler: str) -> Iterator[Client]:
    """Connect to a scheduler with at least one worker, whose workers have the versions of this process."""
    import dask
    from distributed import Client

    # errors are reported in one line
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"}):
        try:
            client = Client(scheduler, timeout=PATIENCE)
        except (OSError, ValueError, TypeError) as exc:
            problem = f"no Dask scheduler answers ({exc}); expected one at an address such as tcp://host:8786"
            raise ClusterError(problem, place=scheduler) from exc
        with client:
            _require_equal_workers(client, scheduler)
            yield client


def _require_equal_workers(client: Client, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as exc:
        raise ClusterError("the scheduler has no worker", place=scheduler) from exc
    for worker, threads in _threads_by_worker(client, scheduler).items():
        if threads != 1:
            problem = f"has {threads} threads; expected a worker with --nthreads 1"
            raise ClusterError(problem, place=f"worker {worker}")
    for worker, answer in client.run(_difference_from, _dependency_versions(), on_error="return").items():
        if answer:
            problem = f"cannot run perfjudge ({answer})" if isinstance(answer, Exception) else answer
            raise ClusterError(problem, place=f"worker {worker}")


@dataclass(frozen=True)
class Compute:
    """The processes or machines that compute tasks; results do not depend on them.

    ``jobs`` is the number of processes on this machine, ``scheduler`` the address of a Dask scheduler whose
    workers are used instead, ``storage`` the database URL for the trials of searches (None: files).
    """

    jobs: int = 1
    scheduler: str | None = None
    storage: str | None = None


def side_by_side(
    function: Callable[[Task], Result], tasks: Sequence[Task], compute: Compute, title: str
) -> list[Result]:
    """Return ``[function(task) for task in tasks]``, computed in parallel as `compute` configures.

    Every task runs with one thread, so that sums are added in the same order on every machine. Function,
    tasks and results must be picklable. `title` is the label of the progress bar. An exception of `function`
    is raised here; ClusterError if the Dask cluster of `compute` cannot be used.
    """
    alone, numbered = partial(_run_single_threaded, function), list(enumerate(tasks))
    if compute.scheduler is None:
        done = _in_processes(alone, numbered, compute.jobs)
    else:
        done = on_cluster(compute.scheduler, alone, numbered)
    results = dict(with_progress_bar(done, len(tasks), title))
    return [results[number] for number in range(len(tasks))]


def _in_processes(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    from joblib import Parallel, delayed, parallel_config

    # otherwise idle workers of a killed stage would wait forever
    ending = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    with parallel_config(backend="loky", inner_max_num_threads=1, **ending):
        parallel = Parallel(n_jobs=min(jobs, max(len(tasks), 1)), return_as="generator_unordered")
        yield from parallel(delayed(function)(task) for task in tasks)


def _run_single_threaded(
    function: Callable[[Task], Result], numbered: tuple[int, Task]
) -> tuple[int, Result]:
    from threadpoolctl import threadpool_limits

    number, task = numbered
    collect_rarely()
    with threadpool_limits(1):
        return number, function(task)


def with_progress_bar(done: Iterable[Result], total: int, title: str, after: float = 0.0) -> Iterator[Result]:
    """Yield the items of `done`; show a progress bar if stderr is a terminal.

    The bar appears after `after` seconds, also while the first item is awaited, and disappears at the end.
    `total` is the number of items, `title` the label of the bar.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from done
        return
    progress = Progress(console=console, transient=True)
    bar, start = progress.add_task(title, total=total), threading.Timer(after, progress.start)
    start.start()
    try:
        for result in done:
            progress.advance(bar)
            yield result
    finally:
        start.cancel()
        start.join()
        progress.stop()


@contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Disable the collection of garbage in the block: a third of the time in which objects are created."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
