"""The results of one run, in any format that holds one."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from data.comparisons.params import Measure
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.files import content_of
from data.tables.problems import Problems


def results_of_run(
    path: Path,
    problems: Problems | None = None,
    measure: Measure | None = None,
    kind: str | None = None,
) -> pd.DataFrame:
    """Read the results of one run.

    Parameters
    ----------
    path : Path
        What a benchmark tool wrote (`data.comparisons.formats.tools`), result XML, or a directory of tables.
    problems : Problems, optional
        Takes notes on what had to be assumed.
    measure : Measure, optional
        What is measured and which direction is better, where the file does not say.
    kind : str, optional
        The format; by default what the content says.

    Returns
    -------
    DataFrame
        With the columns of ``RESULT_DTYPES``.

    Raises
    ------
    InputError
        If the file cannot be read, or holds comparisons or several versions instead of one run.
    """
    from data.comparisons import formats

    kind = kind or formats.sniff(path)
    if kind == "comparison-json":
        # what is no JSON at all is told as that
        content_of(path)
    if kind in {"comparison-json", "comparison-xml", "sap-hana"}:
        raise InputError(f"is {kind}; expected the results of one run: {', '.join(formats.RUNS)}", file=path)
    results = ComparisonTables.joined(
        list(formats.stream(kind, [path], problems or Problems(), measure=measure, piece=None))
    ).results
    if results["order"].min() != results["order"].max():
        raise InputError("holds the results of several versions; expected those of one run", file=path)
    return results
