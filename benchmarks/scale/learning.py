"""What is measured: an engine learns from a directory of runs, in a process of its own.

``python -m benchmarks.scale.learning SOURCE WORK [JOBS]`` prints the seconds of every step as JSON, and
those of the processor for all of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

from benchmarks.table import SEED, clocked
from data.parallel import Compute
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.engine import LARGE
from training.matrices.schemes import Cell

MODEL, TRIALS, MISSING = "logistic", 6, 0.5


def _processor() -> float:
    """Return the processor seconds of this process and of those that it started."""
    me = psutil.Process()
    times = [one.cpu_times() for one in (me, *me.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def main(source: Path, work: Path, jobs: int) -> None:
    """Learn, step by step."""
    recipe = LargeRecipe(Cell(MODEL, LARGE), TRIALS, SEED, MISSING, Compute(jobs))
    clean, (pieces, _) = clocked(lambda: recipe.cleaned(source, work))
    features, shaped = clocked(lambda: recipe.shaped(pieces))
    fit, engine = clocked(lambda: recipe.learned(shaped))
    told = {"clean": clean, "features": features, "fit": fit, "processor": _processor()}
    told["own"] = len(engine.judges.own)
    sizes = {"pairs": pieces.pairs, "pieces": len(pieces.files), "valid": pieces.rows}
    print(json.dumps(told | sizes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)  # noqa: PLR2004
