"""Where the stages of a family leave their files: one folder a stage."""

from __future__ import annotations

from pathlib import Path


class Places:
    """The files of one family.

    Parameters
    ----------
    root : Path
        The project's directory; by default the working directory.

    Attributes
    ----------
    interim : Path
        The tables that ingest wrote.
    valid : Path
        What validate decided.
    processed : Path
        The vectors that featurize made.
    tuned : Path
        What the searches tried and chose.
    models : Path
        Trained models.
    reports : Path
        The directory of ``metrics.json`` and the page.
    metrics : Path
        The figures that git keeps.
    summary : Path
        The few of them that DVC shows.
    evaluated, profiled : Path
        Tables of evaluation, and of profiles.
    page : Path
        The report.
    studies : Path
        Where searches keep their trials, so that they resume.
    """

    def __init__(self, family: str, root: Path = Path()) -> None:
        self.interim = root / "data" / "interim" / family
        self.valid = root / "data" / "valid" / family
        self.processed = root / "data" / "processed" / family
        self.tuned = root / "models" / "tuned" / family
        self.models = root / "models" / family
        self.reports = root / "reports" / family
        self.metrics = self.reports / "metrics.json"
        self.summary = self.reports / "summary.json"
        self.evaluated = self.reports / "evaluated"
        self.profiled = self.reports / "profiled"
        self.page = self.reports / "index.html"
        self.studies = root / ".studies" / family
