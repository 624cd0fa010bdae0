"""The command ``perfjudge timelines``, which only passes on what the user said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from serving.options import Better, Directory, KeepGoing, Model


def timelines(  # noqa: PLR0917 - typer hands options over by name
    rules: Annotated[list[Path], typer.Argument(metavar="RULES.xml...", help="Which results to show.")],
    results: Annotated[Path, typer.Argument(metavar="RESULTS_DIR", help="Results, in folders of any depth.")],
    output: Directory,
    model: Model = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Let a running perfjudge serve judge.")
    ] = None,
    better: Annotated[
        Better | None, typer.Option("--better", help="Which values are better, where results don't say.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What is measured; default: the first that is no time.")
    ] = None,
    keep_going: KeepGoing = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="How many processes work. Default: one a CPU.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say what was written as JSON.")] = False,
) -> int:
    """Show the results of many versions as pages: a box per version, with verdicts and lasting changes."""
    from data.comparisons.params import Measure
    from serving.comparisons.timelines.command import give_timelines
    from serving.comparisons.timelines.generate import TimelineWish

    measure = Measure(metric=metric, better=better)
    many = jobs or len(os.sched_getaffinity(0))
    wish = TimelineWish(tuple(rules), results, output, model, server, measure, keep_going, many)
    return give_timelines(wish, as_json=as_json)
