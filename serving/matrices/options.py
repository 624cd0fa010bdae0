"""Options of shared commands that matrices have for themselves."""

from __future__ import annotations

from typing import Annotated

import typer

Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PATTERN", help="Of matrices: only the workloads of such names."),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="PATTERN", help="Of matrices: no workloads of such names."),
]
