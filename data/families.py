"""The one list of families: a new one adds folders, its parts of params.yaml and dvc.yaml, its name here."""

from __future__ import annotations

FAMILIES = ("comparisons", "matrices", "corun", "fingerprints")
