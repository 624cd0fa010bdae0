"""Which runs are compared: files and directories of them, read a run each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.comparisons.params import Measure
from data.comparisons.run import results_of_run
from data.errors import InputError
from data.tables.problems import Problems

#: What runs are called that name no version.
_UNNAMED = "0"


@dataclass(frozen=True)
class ComparedRun:
    """One run.

    Attributes
    ----------
    path : Path
    version : str
        What the file calls it, or else the name of the file.
    results : DataFrame
        With the columns of ``RESULT_DTYPES``.
    """

    path: Path
    version: str
    results: pd.DataFrame


@dataclass(frozen=True)
class ComparedRuns:
    """Those of both sides, and earlier ones, the oldest first."""

    baseline: tuple[ComparedRun, ...]
    target: tuple[ComparedRun, ...]
    earlier: tuple[ComparedRun, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        """What messages call the two sides."""
        baseline, target = (
            str(side[0].path) if len(side) == 1 else f"{side[0].path} and {len(side) - 1} more"
            for side in (self.baseline, self.target)
        )
        return baseline, target


def read_runs(paths: Sequence[Path], problems: Problems, measure: Measure) -> tuple[ComparedRun, ...]:
    """Read runs: of a directory without tables of its own every file, in the order of their names.

    Raises
    ------
    InputError
        If one cannot be read, or a directory holds none.
    """
    return tuple(_run(path, results_of_run(path, problems, measure)) for path in run_files(paths))


def run_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files and tables that are a run each; InputError if a directory holds none."""
    for path in paths:
        if not path.is_dir() or (path / "results.parquet").exists():
            yield path
            continue
        inside = sorted((one for one in path.iterdir() if not one.name.startswith(".")), key=_natural)
        if not inside:
            raise InputError("holds no run", file=path)
        yield from inside


def _run(path: Path, results: pd.DataFrame) -> ComparedRun:
    named = results["version"].dropna().unique()
    version = str(named[0]) if len(named) == 1 and named[0] != _UNNAMED else path.stem
    return ComparedRun(path, version, results.assign(version=version))


def _natural(path: Path) -> list[tuple[int, str]]:
    """Order numbers in names by their size: 9 before 10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", path.name)]
