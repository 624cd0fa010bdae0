"""Reports: one self-contained page a family, ``python -m serving.report FAMILY``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.ending import end
from data.families import FAMILIES
from data.places import Places
from data.stage import keep_bytecode
from data.tables.files import write_text
from serving.supply import supply

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **content: Any) -> str:
    """Fill a template of ``serving/templates``; what is not marked as safe is escaped."""
    return environment().get_template(template).render(**content)


def environment() -> Environment:
    """Return the templates of ``serving/templates``, with the filters that they use."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from serving.pages.charts import counted, figures, percent, whole

    made = Environment(
        loader=PackageLoader("serving.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"percent": percent, "counted": counted, "figures": figures, "whole": whole}
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``reports/<family>/index.html`` under the working directory; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1 or given[0] not in FAMILIES:
        sys.stderr.write(f"usage: python -m serving.report {{{','.join(FAMILIES)}}}\n")
        return 2
    target = Places(given[0]).page
    try:
        write_text(target, supply(given[0]).page(Path()))
    except Exception as exc:  # noqa: BLE001 - the net below every stage
        return end(exc)
    return 0


if __name__ == "__main__":
    keep_bytecode()
    sys.exit(main())
