"""A candidate that is compared by what it said of unseen cases, kept beside its files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from training.registry.contest import Compared, Means
from training.registry.tracking import Tracked, TrackedRun, client, experiment_of

#: The file beside a registered model with what it said of cases it had not seen.
OOF = "oof.parquet"


@dataclass(frozen=True)
class Kept:
    """What is logged of a candidate.

    Attributes
    ----------
    experiment, title : str
        Of its run.
    directory : Path
        Where it lies.
    scores : dict
        By name.
    nested : iterable of TrackedRun
    oof : DataFrame
        What it said of unseen cases.
    """

    experiment: str
    title: str
    directory: Path
    scores: dict[str, Any]
    nested: Iterable[TrackedRun]
    oof: pd.DataFrame

    def means(
        self,
        read: Callable[[Path], object],
        compare: Callable[[pd.DataFrame, pd.DataFrame], Compared | None],
    ) -> Means:
        """Return what a contest needs; `compare` takes what the candidate and what the champion said."""
        return Means(read, lambda champion: compare(self.oof, pd.read_parquet(champion / OOF)), self.track)

    def track(self, tags: dict[str, str]) -> Tracked:
        """Log the run and its nested ones, and the files."""
        store = client()
        card = json.loads((self.directory / "card.json").read_text(encoding="utf-8"))
        run = TrackedRun(self.title, self.scores, card.get("params", {}), tags)
        with (
            run.logged(store, experiment_of(store, self.experiment), self.nested) as run_id,
            tempfile.TemporaryDirectory() as temporary,
        ):
            store.log_artifacts(run_id, str(self.directory), "model")
            path = Path(temporary) / OOF
            self.oof.to_parquet(path, index=False)
            store.log_artifact(run_id, str(path), "model")
        return Tracked(run_id, f"{store.get_run(run_id).info.artifact_uri}/model")
