"""The fixed rules of `training.comparisons.family`, as they are and with a threshold varied."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.human_labels.judges import Cases, Judge
from benchmarks.human_labels.series import Floats
from benchmarks.table import clocked
from data.comparisons.sides import Sides
from training.comparisons import family
from training.comparisons.family import RULES

_SHARES = np.geomspace(0.001, 1, 61)
_P = np.geomspace(0.5, 1e-30, 91)
_T = np.geomspace(0.5, 100, 61)


@dataclass(frozen=True)
class _Varied:
    """A rule's argument, its values from the loosest to the strictest, and what else is fixed."""

    rule: Any
    argument: str
    values: Floats

    def score(self, sides: Sides) -> Floats:
        """Return the number of the strictest value at which it fires, 0 where it never does."""
        score = np.zeros(sides.n_comparisons)
        for strictness, value in enumerate(self.values, start=1):
            score[self.rule(sides, **{self.argument: value})] = strictness
        return score


_VARIED: Mapping[str, _Varied] = {
    "median-5": _Varied(family.median_worse, "share", _SHARES),
    "mann-whitney-05": _Varied(family.mann_whitney, "p", _P),
    "welch-05": _Varied(family.welch, "p", _P),
    "asv": _Varied(family.asv, "share", _SHARES),
    "perfherder": _Varied(family.perfherder, "t", _T),
    "conbench": _Varied(family.conbench, "z", _T),
}


def judges(sides: Sides, index: pd.Index, cases: Cases) -> list[Judge]:
    """Let every rule judge.

    Parameters
    ----------
    sides : Sides
    index : Index
        The identifiers of their comparisons.
    cases : Cases
    """
    rows = index.get_indexer(pd.Index(cases.ids))
    return [_judge(name, sides, rows) for name in RULES]


def _judge(name: str, sides: Sides, rows: NDArray[np.intp]) -> Judge:
    seconds, judged = clocked(partial(RULES[name], sides), time.process_time)
    varied = _VARIED.get(name)
    score = None if varied is None else varied.score(sides)[rows]
    told = "as it is" if varied is None else f"as it is; {varied.argument} varied"
    return Judge(name, "rule", told, judged[rows], score, seconds=seconds)
