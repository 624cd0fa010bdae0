"""Many independent tasks side by side: on a few processes here, or on a cluster, with a progress bar."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from data.orphans import end_with_parent
from data.stage import collect_rarely

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Compute:
    """Where tasks are computed, on which no result depends.

    Attributes
    ----------
    jobs : int
        Processes on this machine.
    scheduler : str or None
        The address of a Dask scheduler, whose workers compute instead.
    storage : str or None
        The address of a database where searches keep their trials; in files if None.
    """

    jobs: int = 1
    scheduler: str | None = None
    storage: str | None = None


def side_by_side(
    function: Callable[[Task], Result], tasks: Sequence[Task], compute: Compute, title: str
) -> list[Result]:
    """Return ``[function(task) for task in tasks]``.

    Every task runs with one thread, wherever that is, so that sums are added in the same order and the
    results don't depend on it. The bar goes to the standard error, and only to a terminal.

    Raises
    ------
    InputError
        As of `data.cluster.on_cluster`, if there is a scheduler.
    """
    alone, numbered = partial(_alone, function), list(enumerate(tasks))
    if compute.scheduler is None:
        done = _here(alone, numbered, compute.jobs)
    else:
        from data.cluster import on_cluster

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
