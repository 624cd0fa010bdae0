"""Some of the matrices, by the names of their workloads: what to learn from, and what to leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from data.errors import InputError
from data.matrices.tables import MatrixTables

#: How many workloads are named where none matches.
SHOWN = 3


@dataclass(frozen=True)
class Choice:
    """Which workloads are wanted.

    Attributes
    ----------
    only, without : sequence of str
        Patterns of the shell such as ``* CPU Saturation *``: a workload is chosen if it matches one of
        `only`, where there are any, and none of `without`.
    """

    only: Sequence[str] = ()
    without: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.only or self.without)

    def of(self, tables: MatrixTables) -> MatrixTables:
        """Return the tables of the workloads that are chosen.

        Raises
        ------
        InputError
            If a pattern matches none, or no workload is left.
        """
        names = tables.runs["workload"].drop_duplicates().tolist()
        matches = {
            pattern: {name for name in names if fnmatchcase(name, pattern)}
            for pattern in (*self.only, *self.without)
        }
        for pattern, found in matches.items():
            if not found:
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                there = ", ".join(f'"{name}"' for name in names[:SHOWN])
                raise InputError(f'"{pattern}" matches no workload; there are {there}{more}')
        only = set[str]().union(*map(matches.__getitem__, self.only)) if self.only else set(names)
        wanted = tables.runs["workload"].isin(only.difference(*map(matches.__getitem__, self.without)))
        # both sides of a pair, which may be of two workloads
        chosen = wanted.groupby(tables.runs["pair_id"]).transform("all").to_numpy(bool)
        if not chosen.any():
            raise InputError("no workload is left; what is left out is all that is chosen")
        return tables.of_runs(chosen)
