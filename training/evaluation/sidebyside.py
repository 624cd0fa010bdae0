"""Many independent fits on a few processes, with a progress bar on a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from data.orphans import end_with_parent
from data.stage import collect_rarely

Task = TypeVar("Task")
Result = TypeVar("Result")


def side_by_side(
    function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, title: str
) -> list[Result]:
    """Return ``[function(task) for task in tasks]``, computed by `jobs` processes.

    Every task runs with one thread, whatever `jobs` is, so that sums are added in the same order and the
    results don't depend on it. The bar goes to the standard error, and only to a terminal.
    """
    from joblib import Parallel, delayed, parallel_config

    # of a stage that was killed, a worker that waits for work would wait for ever
    ending = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    with parallel_config(backend="loky", inner_max_num_threads=1, **ending):
        parallel = Parallel(n_jobs=min(jobs, max(len(tasks), 1)), return_as="generator_unordered")
        done = parallel(delayed(_numbered)(function, number, task) for number, task in enumerate(tasks))
        results = dict(_watched(done, len(tasks), title))
    return [results[number] for number in range(len(tasks))]


def _numbered(function: Callable[[Task], Result], number: int, task: Task) -> tuple[int, Result]:
    from threadpoolctl import threadpool_limits

    collect_rarely()
    with threadpool_limits(1):
        return number, function(task)


def _watched(done: Iterable[Result], total: int, title: str) -> Iterable[Result]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task(title, total=total)
        for result in done:
            progress.advance(bar)
            yield result
