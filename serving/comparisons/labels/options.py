"""Options about the store of labels."""

from __future__ import annotations

from typing import Annotated

import typer

Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="URL",
        envvar="PERFJUDGE_LABELS",
        help="Where labels are kept: sqlite:///FILE or postgresql://USER@HOST/DATABASE."
        " Default: labels.db in the project.",
    ),
]
Comparisons = Annotated[
    str | None,
    typer.Option(
        "--comparisons",
        metavar="SOURCE",
        help="What may be labelled: comparisons in any supported format. Default: what the project's"
        " pipeline has ingested.",
    ),
]
LabelRate = Annotated[
    int | None,
    typer.Option(
        "--label-rate",
        min=1,
        metavar="N",
        help="How many labels one person may give in a minute. Default: 240.",
    ),
]
#: Of ``perfjudge serve``.
SERVING = {"labels": Labels, "comparisons": Comparisons, "label_rate": LabelRate}
