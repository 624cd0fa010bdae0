"""What only one of two runs has: machines, operations on the others, configurations of what both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import pandas as pd

from data.comparisons.tables import OPERATION

Side = Literal["baseline", "target"]
SIDES: tuple[Side, Side] = ("baseline", "target")
CONFIGURATION = [*OPERATION, "threads"]
#: So many are named in one line.
NAMED = 10


@dataclass(frozen=True)
class Missing:
    """A machine, an operation or a configuration without counterpart.

    Attributes
    ----------
    only_in : {"baseline", "target"}
    benchmark, operation : str or None
        None if the whole machine has no counterpart.
    threads : int or None
        None if the whole operation has none.
    """

    only_in: Side
    machine: str
    benchmark: str | None = None
    operation: str | None = None
    threads: int | None = None

    @property
    def kind(self) -> Literal["machine", "operation", "configuration"]:
        """What has no counterpart."""
        if self.operation is None:
            return "machine"
        return "operation" if self.threads is None else "configuration"

    def __str__(self) -> str:
        names = (self.benchmark, self.operation, self.machine)
        text = "/".join(name for name in names if name is not None)
        return text if self.threads is None else f"{text} with {counted(self.threads, 'thread')}"


def missing(results: pd.DataFrame) -> tuple[Missing, ...]:
    """Find what has no counterpart; what belongs to a whole that has none is not told again.

    Parameters
    ----------
    results : DataFrame
        Those of both runs, the baseline's with the order 0, the target's with 1.

    Returns
    -------
    tuple of Missing
        Machines, then operations, then configurations, of each kind those of the baseline first.
    """
    found: list[Missing] = []
    for keys in (["machine"], OPERATION, CONFIGURATION):
        there = results[[*keys, "order"]].drop_duplicates()
        alone = ~there.duplicated(keys, keep=False)
        rows = there[alone].sort_values("order", kind="stable").to_dict("records")
        found += [Missing(SIDES[row.pop("order")], **row) for row in rows]
        results = results[_in_both(results, keys)]
    return tuple(found)


def comparable(results: pd.DataFrame) -> pd.DataFrame:
    """Keep the operations that both runs have, and of them the configurations that both have.

    An operation whose configurations are all different keeps them, so that it can be said to be invalid.
    """
    results = results[_in_both(results, OPERATION)]
    common = _in_both(results, CONFIGURATION)
    return results[common | ~common.groupby([results[name] for name in OPERATION]).transform("any")]


def told(found: Sequence[Missing], names: tuple[str, str]) -> Iterator[str]:
    """Yield a line per kind and side; `names` is what baseline and target are called."""
    called = dict(zip(SIDES, names, strict=True))
    for (kind, side), group in groupby(found, key=lambda one: (one.kind, one.only_in)):
        alone = [str(one) for one in group]
        yield f"{counted(len(alone), kind)} only in {called[side]}: {listed(alone)}"


def counted(number: int, what: str) -> str:
    """Return a number and what it counts."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _in_both(results: pd.DataFrame, keys: list[str]) -> pd.Series[bool]:
    return results.groupby(keys)["order"].transform("nunique") == len(SIDES)
