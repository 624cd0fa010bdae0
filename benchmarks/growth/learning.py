"""What is measured: one model learns from so many copies, in a process of its own.

``python -m benchmarks.growth.learning MODEL TIMES`` prints a `Learnt` as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import asdict, dataclass

from threadpoolctl import threadpool_limits

from benchmarks.growth.lessons import LESSONS, Lesson
from benchmarks.table import clocked

#: A fit that takes less than so many seconds is done again, and the shortest counts.
SHORT, ROUNDS = 2.0, 3
MIB = 2**10


@dataclass(frozen=True)
class Learnt:
    """What a fit cost.

    Attributes
    ----------
    what : str
        The model.
    cases, columns : int
        What it learned from.
    seconds : float
        Of the processor, on one thread.
    data, peak : float
        Resident MiB at most, before the fit and until its end.
    """

    what: str
    cases: int
    columns: int
    seconds: float
    data: float
    peak: float


def learnt(model: str, times: int) -> Learnt:
    """Fit a model to so many copies."""
    # what is imported on the way is not counted
    LESSONS[model](1).learn()
    lesson = LESSONS[model](times)
    data, seconds = _resident(), [_seconds(lesson)]
    peak = _resident()
    if seconds[0] < SHORT:
        seconds += [_seconds(lesson) for _ in range(ROUNDS - 1)]
    return Learnt(lesson.what, lesson.cases, lesson.columns, min(seconds), data, peak)


def _seconds(lesson: Lesson) -> float:
    return clocked(lesson.learn, time.process_time)[0]


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB


if __name__ == "__main__":
    with threadpool_limits(1):
        print(json.dumps(asdict(learnt(sys.argv[1], int(sys.argv[2])))))
