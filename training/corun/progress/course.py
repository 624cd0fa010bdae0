"""How runs of the same task went on, laid beside each other by the work that was done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Blocks that what was seen is divided into at most, and the rest; intervals that a block has at least.
SEEN, REST, FEWEST = 24, 64, 2
#: Works that differ by less are the same work: runs of one program retire nearly the same instructions.
SAME = 0.01
#: Works of whole runs that differ by less are still of the same task: threads that wait for each other spin.
NEARLY = 0.05
#: Runs that were sampled for the same time differ by less.
_SAMPLED = 0.02
#: A run alone that lasts so much longer than what was sampled together was not sampled for the same time.
LONGER = 1.1
#: A rate or share below this part of the usual one is told no lower.
_LEAST = 1e-3


@dataclass(frozen=True)
class WorkCourse:
    """How a run went on.

    Attributes
    ----------
    ends : ndarray of shape (n_intervals,)
        The end of each interval, in seconds since the start.
    work : ndarray of shape (n_intervals,)
        Of each interval, such as instructions retired.
    nature : ndarray of shape (n_intervals, n_events)
        What else was counted, such as cycles and cache misses, which tells phases from each other.
    """

    ends: Floats
    work: Floats
    nature: Floats

    @property
    def seconds(self) -> float:
        """How long it was sampled."""
        return float(self.ends[-1])

    @property
    def total(self) -> float:
        """All work."""
        return float(self.work.sum())

    def done(self, seconds: Floats) -> Floats:
        """Return the work done until some seconds."""
        return np.asarray(np.interp(seconds, _from_zero(self.ends), _from_zero(self.work.cumsum())))

    def reached(self, work: Floats) -> Floats:
        """Return when so much work was done; of a wait without work, its end."""
        done = _from_zero(self.work.cumsum())
        # a wait takes a trifle of work, or its time would belong to nobody
        done += np.linspace(0, 1e-9 * max(done[-1], 1.0), len(done))
        return np.asarray(np.interp(work, done, _from_zero(self.ends)))

    def natures(self, edges: Floats) -> Floats:
        """Return the logarithms of the rate of work, and of events per work, between `edges` in seconds.

        Returns
        -------
        ndarray of shape (n_edges - 1, 1 + n_events)
        """
        counts = np.column_stack([self.work, self.nature])
        sums = np.column_stack(
            [np.interp(edges, _from_zero(self.ends), _from_zero(one.cumsum())) for one in counts.T]
        )
        within = np.diff(sums, axis=0)
        usual = np.maximum(within.sum(axis=0) / (edges[-1] - edges[0]), 1e-300)
        rates = within / np.diff(edges)[:, None] / usual
        logs = np.log(np.maximum(rates, _LEAST))
        logs[:, 1:] -= logs[:, :1]
        return np.asarray(logs)


@dataclass(frozen=True)
class AlignedRuns:
    """A task alone and beside others, up to the same work.

    Attributes
    ----------
    solo, corun : ndarray of shape (n_blocks,)
        Seconds that the same blocks of work took alone, and together.
    natures : ndarray of shape (n_blocks + n_rest, n_kinds)
        What the blocks were like alone: those that were seen together, then the rest.
    rest : ndarray of shape (n_rest,)
        Seconds alone of the blocks that nobody has seen together yet; none where the run alone ends there.
    whole : bool
        Whether nothing is unknown beyond them.
    """

    solo: Floats
    corun: Floats
    natures: Floats
    rest: Floats
    whole: bool

    @property
    def seen(self) -> float:
        """Seconds alone of what was seen together."""
        return float(self.solo.sum())


def beside(solo: WorkCourse, corun: WorkCourse, *, whole: bool, ended: bool = False) -> AlignedRuns:
    """Lay two runs beside each other by work.

    Parameters
    ----------
    solo, corun : WorkCourse
        The same task alone and beside others; its total work is above 0.
    whole : bool
        Whether the run alone is all of the task's work, not only its beginning.
    ended : bool
        Whether that together has ended, too.
    """
    both = ended or (whole and abs(corun.total / solo.total - 1) < SAME)
    common = min(solo.total, corun.total)
    until = solo.seconds if both else float(solo.reached(np.array([common]))[0])
    seen = np.linspace(0, until, _blocks(min(int((solo.ends <= until).sum()), len(corun.ends)), SEEN) + 1)
    rest = np.linspace(until, solo.seconds, _blocks(int((solo.ends > until).sum()), REST) + 1)
    if not whole or solo.seconds - until < SAME * solo.seconds:
        rest = rest[:1]
    work = solo.done(seen)
    together = corun.reached(work * (corun.total / solo.total if both else 1.0))
    if both:
        together[-1] = corun.seconds
    edges = np.concatenate([seen, rest[1:]])
    least = 1e-6 * until / len(seen)
    return AlignedRuns(
        np.diff(seen), np.maximum(np.diff(together), least), solo.natures(edges), np.diff(rest), whole
    )


def is_longer(solo: WorkCourse, corun: WorkCourse) -> bool:
    """Guess whether the run alone is a whole one: it was not sampled for the same time as that together."""
    return solo.seconds > LONGER * corun.seconds


def have_ended(solo: WorkCourse, corun: WorkCourse) -> bool:
    """Guess whether both are whole runs: they did nearly the same work, though not in the same time."""
    same = abs(corun.total / solo.total - 1) < NEARLY
    return same and abs(corun.seconds / solo.seconds - 1) > _SAMPLED


def _blocks(intervals: int, most: int) -> int:
    return int(np.clip(intervals // FEWEST, 1, most))


def _from_zero(values: Floats) -> Floats:
    return np.concatenate([[0.0], values])
