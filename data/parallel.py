"""Much work on many objects, during which Python looks for no cycles."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

#: Seconds until a scheduler has answered, and until it has a worker.
PATIENCE = 10
#: Tasks that wait for each worker; more would only fill the scheduler's memory.
_AHEAD = 3
_GONE = "the scheduler went away"
#: What results depend on, beside this code.
_LIBRARIES = (
    "imbalanced-learn", "joblib", "numpy", "optuna", "pandas", "pyarrow", "scikit-learn", "scipy",
    "xgboost-cpu",
)  # fmt: skip
_ROOMS = ("data", "features", "training")


class ClusterError(InputError):
    """A cluster that cannot be used."""


@dataclass(frozen=True)
class Installed:
    """What results depend on: by its name, the version of what is installed; our own code by its digest."""

    versions: Mapping[str, str]

    @classmethod
    @cache
    def here(cls) -> Installed:
        """Look at this process."""
        root = Path(__file__).parents[1]
        code = (path for room in _ROOMS for path in sorted((root / room).rglob("*.py")))
        python = ".".join(map(str, sys.version_info[:3]))
        own = {"perfjudge": digest_of(*code)[:12], "Python": python}
        pinned = {name: os.environ.get(name, "unset") for name in PINNED}
        return cls(own | {name: version(name) for name in _LIBRARIES} | pinned)

    def unlike(self, other: Installed) -> str:
        """Tell the first thing that differs; empty if nothing does."""
        told = (f"{name} {found}" for name, found in other.versions.items() if found != self.versions[name])
        first = next(told, "")
        return first and f"has {first}; expected {self.versions[first.split()[0]]} as here"


def on_cluster(scheduler: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """Yield what `function` returns for each task, in the order in which workers are done."""
    from distributed import KilledWorker, as_completed
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    with _connected(scheduler) as client:
        waiting, running = iter(tasks), as_completed()

        def hand_out() -> None:
            free = _AHEAD * max(len(_threads(client, scheduler)), 1) - running.count()
            for task in islice(waiting, max(free, 0)):
                running.add(client.submit(_alike, Installed.here(), function, task, pure=False))

        try:
            hand_out()
            for future in running:
                hand_out()
                yield future.result()
        except KilledWorker as exc:
            told = "every worker that took a certain task died; has it enough memory?"
            raise ClusterError(told, place=scheduler) from exc
        except (FutureCancelledError, CommClosedError) as exc:
            raise ClusterError(_GONE, place=scheduler) from exc


def _threads(client: Client, scheduler: str) -> dict[str, int]:
    """Return the threads of each worker."""
    try:
        return dict(client.nthreads())
    except OSError as exc:
        raise ClusterError(_GONE, place=scheduler) from exc


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """Connect to a scheduler that has a worker, and whose workers are like this process."""
    import dask
    from distributed import Client

    # what goes wrong is told in one line
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"}):
        try:
            client = Client(scheduler, timeout=PATIENCE)
        except (OSError, ValueError, TypeError) as exc:
            told = f"no Dask scheduler answers ({exc}); expected one at an address such as tcp://host:8786"
            raise ClusterError(told, place=scheduler) from exc
        with client:
            _require_alike(client, scheduler)
            yield client


def _require_alike(client: Client, scheduler: str) -> None:
    """Raise a ClusterError if there is no worker, or one that would not compute the same."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as exc:
        raise ClusterError("the scheduler has no worker", place=scheduler) from exc
    for worker, threads in _threads(client, scheduler).items():
        if threads != 1:
            told = f"has {threads} threads; expected a worker with --nthreads 1"
            raise ClusterError(told, place=f"worker {worker}")
    for worker, found in client.run(_unlike, Installed.here(), on_error="return").items():
        if found:
            told = f"cannot run perfjudge ({found})" if isinstance(found, Exception) else found
            raise ClusterError(told, place=f"worker {worker}")


def _unlike(expected: Installed) -> str:
    return expected.unlike(Installed.here())


def _alike(expected: Installed, function: Callable[[Task], Result], task: Task) -> Result:
    """Compute a task on a worker, which may have come after the others were looked at."""
    differs = _unlike(expected)
    if differs:
        raise ClusterError(differs, place=f"worker on {gethostname()}")
    return function(task)


@dataclass(frozen=True)
class Compute:
    """Where tasks are computed; no result depends on it.

    ``jobs`` processes on this machine, or a Dask ``scheduler`` (address) whose workers compute instead;
    ``storage`` is the address of a database where searches keep their trials, in files if None.
    """

    jobs: int = 1
    scheduler: str | None = None
    storage: str | None = None


def side_by_side(
    function: Callable[[Task], Result], tasks: Sequence[Task], compute: Compute, title: str
) -> list[Result]:
    """Return ``[function(task) for task in tasks]``.

    Every task runs with one thread, wherever that is, so that sums are added in the same order and the
    results don't depend on it. A progress bar goes to the standard error, if that is a terminal.
    """
    alone, numbered = partial(_alone, function), list(enumerate(tasks))
    if compute.scheduler is None:
        done = _here(alone, numbered, compute.jobs)
    else:
        done = on_cluster(compute.scheduler, alone, numbered)
    results = dict(watched(done, len(tasks), title))
    return [results[number] for number in range(len(tasks))]


def _here(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    from joblib import Parallel, delayed, parallel_config

    # of a stage that was killed, a worker that waits for work would wait for ever
    ending = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    with parallel_config(backend="loky", inner_max_num_threads=1, **ending):
        parallel = Parallel(n_jobs=min(jobs, max(len(tasks), 1)), return_as="generator_unordered")
        yield from parallel(delayed(function)(task) for task in tasks)


def _alone(function: Callable[[Task], Result], numbered: tuple[int, Task]) -> tuple[int, Result]:
    from threadpoolctl import threadpool_limits

    number, task = numbered
    collect_rarely()
    with threadpool_limits(1):
        return number, function(task)


def watched(done: Iterable[Result], total: int, title: str, after: float = 0.0) -> Iterator[Result]:
    """Yield what is `done`, with a progress bar on a terminal, once it has taken `after` seconds."""
    from rich.console import Console
    from rich.progress import Progress

    console, begun = Console(stderr=True), time.monotonic()
    progress = Progress(console=console, disable=not console.is_terminal, transient=True)
    bar, shown = progress.add_task(title, total=total), False
    try:
        for result in done:
            if not shown and time.monotonic() - begun >= after:
                shown = True
                progress.start()
            progress.advance(bar)
            yield result
    finally:
        if shown:
            progress.stop()


@contextmanager
def uncollected() -> Iterator[None]:
    """Let Python look for no cycles: where many objects have none, it takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
