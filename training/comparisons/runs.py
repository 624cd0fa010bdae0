"""What featurize found that runs of one build differ by."""

from __future__ import annotations

from pathlib import Path

from data.tables.specs import read_table


def read_run_spread(path: Path) -> float:
    """Return what two runs of a build differ by where no versions tell; see `features.comparisons.runs`.

    Raises
    ------
    InputError
        If the file is missing.
    """
    return float(read_table(path, {"spread": "float64"})["spread"].iloc[0])
