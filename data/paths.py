"""Where the stages of a family leave their files: one folder a stage."""

from __future__ import annotations

from pathlib import Path


class Places:
    """The files of one family, below the project's directory `root` (default: the working directory)."""

    def __init__(self, family: str, root: Path = Path()) -> None:
        # tables that ingest wrote
        self.interim = root / "data" / "interim" / family
        # decisions of validate
        self.valid = root / "data" / "valid" / family
        # vectors of featurize
        self.processed = root / "data" / "processed" / family
        # trials and choices of the searches
        self.tuned = root / "models" / "tuned" / family
        self.models = root / "models" / family
        self.reports = root / "reports" / family
        # figures that git keeps
        self.metrics = self.reports / "metrics.json"
        # the few figures that DVC shows
        self.summary = self.reports / "summary.json"
        self.evaluated = self.reports / "evaluated"
        self.profiled = self.reports / "profiled"
        self.page = self.reports / "index.html"
        # trials of searches, so that they resume
        self.studies = root / ".studies" / family
