"""Whether the next ``dvc repro`` ends with the same figures, whenever the one before was killed.

Run it with ``python -m benchmarks.kills [RUNS [FAMILY...]]``; it writes ``docs/results/kills.md``. A run
takes up to twice as long as the small suite's pipeline.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.kills.killing import KINDS, Killed, killed, whole
from benchmarks.kills.project import made, targets
from benchmarks.table import SEED, Table, machine, require_programs
from data.families import FAMILIES

RUNS = 20
#: Of the time that an undisturbed run takes; the end of a run that is quicker is no kill.
LATEST = 0.95
_TOLD = {
    "dvc": "DVC's process alone",
    "group": "DVC's process group: stage and workers, too",
    "stage": "the stage's process alone",
}
_COUNTS = (
    "runs",
    "the next run ends well",
    "all figures the same bytes",
    "processes left",
    "left half done",
)


def main(runs: int = RUNS, families: Sequence[str] = FAMILIES) -> int:
    """Kill so many runs, each of a copy of its own in which nothing had run; publish what came of it."""
    require_programs("git")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as scratch:
        directory, stages = Path(scratch), targets(families)
        os.environ["PYTHONPYCACHEPREFIX"] = str(directory / "bytecode")
        new = made(directory / "new")
        shutil.copytree(new, directory / "first")
        whole(directory / "first", stages)
        shutil.copytree(new, directory / "second")
        seconds, wanted = whole(directory / "second", stages)
        found = []
        for number, share in enumerate(np.random.default_rng(SEED).uniform(0, LATEST, runs)):
            root = directory / f"run {number}"
            shutil.copytree(new, root)
            one = killed(root, stages, KINDS[number % len(KINDS)], float(share * seconds), wanted)
            sys.stderr.write(f"{number + 1} of {runs}: {one}\n")
            found.append(one)
            shutil.rmtree(root)
    _published(found, seconds, families)
    return 0 if all(one.well for one in found) else 1


def _published(found: list[Killed], seconds: float, families: Sequence[str]) -> None:
    moments = ", ".join(f"{one.after:.1f} s {one.stage}" for one in sorted(found, key=lambda one: one.after))
    suite = (
        f"A copy of the project with some of the shipped measurements ({', '.join(families)}) and short"
        f" searches, in which nothing has run; undisturbed, it takes {seconds:.0f} s. Each run has its own."
    )
    half = (
        "Left half done: runs that MLflow holds to be running, registered names without champion, a damaged"
        " store, half-written files."
    )
    next_run = (
        "The next run is a plain `dvc repro`, begun at once. Figures are all metrics.json and summary.json."
    )
    rows = [_row(_TOLD[kind], [one for one in found if one.kind == kind]) for kind in KINDS]
    Table(
        "dvc repro, killed",
        f"python -m benchmarks.kills {len(found)} {' '.join(families)}",
        {"killed with SIGKILL": "", **dict.fromkeys(_COUNTS, "d")},
        [*rows, _row("all", found)],
        [machine(), suite, f"Moments are drawn with the random seed {SEED}: {moments}.", next_run, half],
    ).publish("kills")


def _row(told: str, found: list[Killed]) -> tuple[object, ...]:
    ended, same = (sum(flags) for flags in ([one.status == 0 for one in found], [one.same for one in found]))
    return told, len(found), ended, same, sum(one.left for one in found), sum(one.unfinished for one in found)


if __name__ == "__main__":
    many, *named = sys.argv[1:] or [str(RUNS)]
    sys.exit(main(int(many), named or FAMILIES))
