"""A candidate that is compared by what it said of unseen cases, kept beside its files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from training.registry.contest import Compared, Means
from training.registry.runs import Logbook, TrackedRun
from training.registry.tracking import Tracked

#: The file beside a registered model with what it said of cases it had not seen.
OOF = "oof.parquet"


@dataclass(frozen=True)
class Kept:
    """What is logged of a candidate, and of those that it was chosen from.

    Attributes
    ----------
    family : str
    data : dict
        Of metrics.json.
    vectors : Path
        The table that was learned from.
    directory : Path
        Where the candidate lies.
    runs : sequence of TrackedRun
        The best first, which is the candidate's.
    oof : DataFrame
        What the candidate said of unseen cases.
    """

    family: str
    data: dict[str, Any]
    vectors: Path
    directory: Path
    runs: Sequence[TrackedRun]
    oof: pd.DataFrame

    def means(
        self,
        read: Callable[[Path], object],
        compare: Callable[[pd.DataFrame, pd.DataFrame], Compared | None],
    ) -> Means:
        """Return what a contest needs; `compare` takes what the candidate and what the champion said."""
        return Means(read, lambda champion: compare(self.oof, pd.read_parquet(champion / OOF)), self.track)

    def track(self, tags: dict[str, str]) -> Tracked:
        """Log the candidate with its files, and the others unless they are known."""
        book = Logbook(self.family, self.data, self.vectors, tags["evidence"])
        known = book.known()
        for run in reversed(self.runs[1:]):
            if run.name not in known:
                with book.logged(run):
                    pass
        with book.logged(self.runs[0]) as run_id, tempfile.TemporaryDirectory() as temporary:
            book.store.log_artifacts(run_id, str(self.directory), "model")
            path = Path(temporary) / OOF
            self.oof.to_parquet(path, index=False)
            book.store.log_artifact(run_id, str(path), "model")
        return Tracked(run_id, f"{book.store.get_run(run_id).info.artifact_uri}/model")
