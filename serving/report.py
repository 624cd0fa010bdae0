"""Reports: one self-contained page a family, ``python -m serving.report FAMILY``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from data.families import FAMILIES
from data.paths import Places
from data.stage import alone, end, prepare_process
from data.tables.files import write_text
from serving.supply import supply


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``reports/<family>/index.html`` under the working directory; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1 or given[0] not in FAMILIES:
        sys.stderr.write(f"usage: python -m serving.report {{{','.join(FAMILIES)}}}\n")
        return 2
    target = Places(given[0]).page
    try:
        with alone(given[0]):
            write_text(target, supply(given[0]).page(Path()))
    except Exception as exc:  # noqa: BLE001 - the net below every stage
        return end(exc)
    return 0


if __name__ == "__main__":
    prepare_process()
    sys.exit(main())
