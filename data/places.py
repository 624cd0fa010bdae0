"""Where the stages of a family leave their files: one folder a stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The files of one family.

    Attributes
    ----------
    family : str
    root : Path
        The project's directory; by default the working directory.
    """

    family: str
    root: Path = Path()

    @property
    def interim(self) -> Path:
        """The tables that ingest wrote."""
        return self.root / "data" / "interim" / self.family

    @property
    def valid(self) -> Path:
        """What validate decided."""
        return self.root / "data" / "valid" / self.family

    @property
    def processed(self) -> Path:
        """The vectors that featurize made."""
        return self.root / "data" / "processed" / self.family

    @property
    def tuned(self) -> Path:
        """What the searches tried and chose."""
        return self.root / "models" / "tuned" / self.family

    @property
    def models(self) -> Path:
        """Trained models."""
        return self.root / "models" / self.family

    @property
    def reports(self) -> Path:
        """The directory of ``metrics.json`` and the page."""
        return self.root / "reports" / self.family

    @property
    def metrics(self) -> Path:
        """The figures that git keeps."""
        return self.reports / "metrics.json"

    @property
    def evaluated(self) -> Path:
        """Tables of evaluation."""
        return self.reports / "evaluated"

    @property
    def profiled(self) -> Path:
        """Tables of profiles."""
        return self.reports / "profiled"

    @property
    def page(self) -> Path:
        """The report."""
        return self.reports / "index.html"

    @property
    def studies(self) -> Path:
        """Where searches keep their trials, so that they resume."""
        return self.root / ".studies" / self.family
