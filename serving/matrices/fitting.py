"""What ``perfjudge matrices fit`` does: an engine learns from what is larger than memory."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from data.matrices.params import Matrices
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.engine import LARGE
from training.matrices.schemes import Cell
from training.registry.champions import project_params


def fit(source: Path, output: Path, model: str, trials: int | None, work: Path | None) -> int:
    """Write the model to `output`, and return the exit code."""
    knobs = project_params(Matrices)
    how, scheme = knobs.section.evaluate, replace(LARGE, components=knobs.section.evaluate.components)
    tried = how.trials if trials is None else trials
    missing = knobs.section.checks.missing
    recipe = LargeRecipe(Cell(model, scheme), tried, knobs.seed, missing, knobs.compute)
    place = output.parent if work is None else work
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pieces-", dir=place) as directory:
        trained = recipe.train(source, Path(directory))
    trained.write(output)
    own = f"{len(trained.card.own)} of {len(trained.card.groups)} groups have a classifier of their own"
    sys.stderr.write(f"{trained.card.entry} -> {output}: {own}\n")
    return 0
