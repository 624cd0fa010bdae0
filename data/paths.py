"""Paths of the files that a family's stages write: one folder per stage."""

from __future__ import annotations

from pathlib import Path


class FamilyPaths:
    """The files of one family, below the project's directory `root` (default: the working directory)."""

    def __init__(self, family: str, root: Path = Path()) -> None:
        # tables written by ingest
        self.interim = root / "data" / "interim" / family
        # decisions of validate
        self.valid = root / "data" / "valid" / family
        # feature vectors written by featurize
        self.processed = root / "data" / "processed" / family
        # trials and best parameters of the searches
        self.tuned = root / "models" / "tuned" / family
        self.models = root / "models" / family
        self.reports = root / "reports" / family
        # metrics tracked by git
        self.metrics = self.reports / "metrics.json"
        # the few metrics that DVC shows
        self.summary = self.reports / "summary.json"
        self.evaluated = self.reports / "evaluated"
        self.profiled = self.reports / "profiled"
        self.page = self.reports / "index.html"
        # trials of unfinished searches, from which they resume
        self.studies = root / ".studies" / family
