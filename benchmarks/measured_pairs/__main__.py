"""Verdicts of `compare` on measured pairs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.drift import level_of_best_test
from benchmarks.measured_pairs.measure import HERE, HISTORY, TOOLS
from benchmarks.table import Table
from data.comparisons.formats import results_of_run
from data.comparisons.pair import paired_runs
from data.comparisons.sides import Floats
from features.comparisons.between_run_variation import ASSUMED
from serving.comparisons.compare.weighing import judge_runs
from serving.comparisons.model import Judge, load_judge

#: Runs that choices were made on, and two later sets.
SETS = ("development", "held-out", "held-out-2")
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class MeasuredRuns:
    """The runs of one tool: unchanged ones in their order, and after the history a slower one beside each."""

    unchanged: Sequence[pd.DataFrame]
    slower: Sequence[pd.DataFrame]
    slower_operations: Sequence[str]

    @classmethod
    def from_archive(cls, path: Path) -> MeasuredRuns:
        """Return the runs in a ZIP archive of `benchmarks.measured_pairs.measure.pack_results`."""
        with TemporaryDirectory() as folder, ZipFile(path) as archive:
            archive.extractall(folder)
            runs = {file.stem: results_of_run(file) for file in sorted(Path(folder).iterdir())}
        for run in runs.values():
            # without the name of the test
            run["operation"] = run["operation"].str.extract(r"(\w+)\]?$", expand=False)
        slower = {name: run for name, run in runs.items() if name.startswith("slower")}
        unchanged = [run for name, run in runs.items() if name.startswith("unchanged")]
        return cls(unchanged, [*slower.values()], [name.split("-", 2)[2] for name in slower])

    @cached_property
    def operations(self) -> list[str]:
        """Names of the operations, in the order of `is_slower` and of verdicts."""
        return [*_levels(self.unchanged[0]).index]

    @property
    def is_slower(self) -> Booleans:
        """Which operation is slower in each slower run, shape (n_pairs, n_operations)."""
        return np.array([[name == slower for name in self.operations] for slower in self.slower_operations])

    def targets(self, *, with_slower: bool) -> Sequence[pd.DataFrame]:
        """Return the targets of the pairs; the baseline of each is the unchanged run before it."""
        return self.slower if with_slower else self.unchanged[HISTORY + 1 :]


def _levels(run: pd.DataFrame) -> pd.Series:
    return np.log(run.groupby("operation", sort=False)["value"].median())


def verdicts_of(runs: MeasuredRuns, served: Judge, *, history: bool, with_slower: bool) -> NDArray[np.str_]:
    """Return the verdicts of `compare`, shape (n_pairs, n_operations)."""
    rows = []
    for at, target in enumerate(runs.targets(with_slower=with_slower), HISTORY):
        earlier = runs.unchanged[at - HISTORY : at] if history else []
        tables = paired_runs([runs.unchanged[at]], [target], earlier).tables
        answers = judge_runs(tables, served, ASSUMED).judgement.answers
        rows.append(pd.Series(answers, tables.comparisons["operation"])[runs.operations].to_numpy(str))
    return np.array(rows)


def best_test(runs: MeasuredRuns, *, history: bool) -> tuple[float, float]:
    """Return the shares of slow-downs and of unchanged operations that the best test calls slower.

    The test knows the true spread of each operation's shifts between unchanged runs. It is the better one of
    shifts with and without that of the whole run, from the baseline alone or with earlier runs.
    """
    results, z = [], norm.isf(level_of_best_test(len(runs.operations)))
    for number, is_centred in product((1, HISTORY + 1)[: 1 + history], (False, True)):
        same, slow = (_shifts(runs, number, is_centred, with_slower=change) for change in (False, True))
        limit = z * np.sqrt((same**2).mean(axis=0))
        results.append((float((slow > limit)[runs.is_slower].mean()), float((same > limit).mean())))
    return max(results)


def _shifts(runs: MeasuredRuns, number: int, is_centred: bool, *, with_slower: bool) -> Floats:
    """Return the shifts against the mean of `number` runs, shape (n_pairs, n_operations)."""
    levels = np.array([_levels(run) for run in runs.unchanged])
    before = [levels[end - number : end].mean(axis=0) for end in range(HISTORY + 1, len(levels))]
    shifts = np.array([_levels(run) for run in runs.targets(with_slower=with_slower)]) - before
    return shifts - np.median(shifts, axis=1, keepdims=True) if is_centred else shifts


def rates(runs: MeasuredRuns, served: Judge, *, history: bool) -> list[object]:
    """Return the results of a row."""
    same, slow = (verdicts_of(runs, served, history=history, with_slower=change) for change in (False, True))
    found, false = best_test(runs, history=history)
    slower = slow[runs.is_slower]
    unchanged = np.concatenate([same.ravel(), slow[~runs.is_slower]])
    failing = float((same == "fail").any(axis=1).mean())
    spread = float(np.sqrt((_shifts(runs, 1, is_centred=False, with_slower=False) ** 2).mean(axis=0)).max())
    return [
        HISTORY if history else 0, len(same), unchanged.size, failing, (unchanged == "fail").mean(),
        (unchanged == "unsure").mean(), (slower == "fail").mean(), (slower == "unsure").mean(), found,
        false, spread,
    ]  # fmt: skip


COLUMNS = {
    "tool": "", "runs": "", "earlier runs": "d", "pairs": "d", "unchanged operations": "d",
    "builds failing": ".1%", "unchanged: fail": ".2%", "unchanged: unsure": ".1%", "slower: found": ".0%",
    "slower: unsure": ".0%", "best test finds": ".0%", "best test: false": ".2%",
    "largest spread": ".0%",
}  # fmt: skip


def main(*, dry: bool = False) -> None:
    """Judge all pairs; `dry`: print the table only."""
    served = load_judge(None)
    rows = [
        [tool, place.replace("-", " "), *rates(runs, served, history=history)]
        for tool, place in product(TOOLS, SETS)
        for runs in (MeasuredRuns.from_archive(HERE / f"{tool}-{place}.zip"),)
        for history in (False, True)
    ]
    notes = (
        "18 operations of Python's standard library, on a virtual machine; one run a side.",
        "In half of the pairs one operation does 8 % more work; the others of that run count as unchanged.",
        "The limits of compare were chosen with the runs of development; the others were measured later.",
        "Held out 2 was measured last, in one run of `python -m benchmarks.measured_pairs.measure`.",
        "The best test knows each operation's spread; with normal shifts it fails 5 % of unchanged builds.",
        "Largest spread: the standard deviation of the shifts of the operation that varies most, unchanged.",
        f"The champion is {served.ref.name} {served.ref.version}.",
    )
    Table("Verdicts on measured pairs of runs", COLUMNS, rows, notes).publish("measured-pairs", dry=dry)


if __name__ == "__main__":
    typer.run(main)
