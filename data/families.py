"""The one list of families: a new one adds its folders, its parts of params.yaml and dvc.yaml, and its name."""

from __future__ import annotations

FAMILIES = ("comparisons", "matrices", "corun", "fingerprints")
