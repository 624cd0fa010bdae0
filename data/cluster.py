"""Tasks on a Dask cluster, whose workers have to run this very code.

What a worker was computing when it went away is computed by another one; the scheduler sees to that.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, TypeVar

from data.errors import InputError
from data.stage import PINNED
from data.tables.digest import digest_of

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
    """Yield what `function` returns for each task, in the order in which workers are done.

    Parameters
    ----------
    scheduler : str
        As ``tcp://host:8786``.
    function : callable
        Of this code; it gets a worker for itself.
    tasks : sequence

    Raises
    ------
    ClusterError
        If the scheduler cannot be reached or goes away, has no worker, one of its workers has another version
        of this code or of a library or more than one thread, or every worker that takes a certain task dies.
    """
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
