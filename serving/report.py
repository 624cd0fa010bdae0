"""Stage report: one self-contained page per family, ``python -m serving.report FAMILY``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from data.families import FAMILIES
from data.paths import FamilyPaths
from data.stage import alone, prepare_process, report_error
from data.tables.files import write_text
from serving.plugins import family_plugin


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``reports/<family>/index.html`` under the working directory; return the exit status.

    `arguments` holds one family's name (None: the command line). Wrong arguments give 2; errors are reported
    by `report_error`.
    """
    families = list(sys.argv[1:] if arguments is None else arguments)
    if len(families) != 1 or families[0] not in FAMILIES:
        sys.stderr.write(f"usage: python -m serving.report {{{','.join(FAMILIES)}}}\n")
        return 2
    (family,) = families
    try:
        with alone(family):
            write_text(FamilyPaths(family).page, family_plugin(family).page(Path()))
    except Exception as exc:  # noqa: BLE001 - the last resort of every stage
        return report_error(exc)
    return 0


if __name__ == "__main__":
    prepare_process()
    sys.exit(main())
