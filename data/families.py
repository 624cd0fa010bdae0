"""The one list of families. A new one adds its folders, its sections of params.yaml and dvc.yaml, and a name here."""

from __future__ import annotations

FAMILIES = ("comparisons", "matrices", "corun", "fingerprints")
