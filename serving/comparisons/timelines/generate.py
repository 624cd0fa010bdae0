"""Timelines of all machines and sets of rules, written as pages (scheduler thesis, section 5.2.4)."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from data.comparisons.params import Measure
from data.comparisons.timelines import rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import ChosenRuns, choose_runs
from data.errors import InputError
from data.measure.session import Screen
from data.parallel import garbage_collection_off
from data.tables.files import write_text
from data.tables.problems import Problems
from serving.answering import print_notes, print_skipped, write_output
from serving.comparisons.timelines.assembled import TimelineJudge, assemble_report
from serving.comparisons.timelines.judged import model_judge, server_judge
from serving.comparisons.timelines.page import index_page, list_report, summary_lines, timeline_page

if TYPE_CHECKING:
    from serving.comparisons.judge import BaseRateOption

#: Most letters of a file name.
_LONGEST = 80

#: Takes the numbers of completed and of all steps, and the current activity.
Advance = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class TimelineOptions:
    """The inputs, the judge and the output folder of timelines."""

    rules: tuple[Path, ...]
    results: Path  # folder
    output: Path  # folder
    model: str | None = None  # address of the model; None: the champion, if it exists
    server: str | None = None  # address of a server that judges instead
    base_rate: BaseRateOption = None  # the share of regressions, or "estimate"; None: that of the training
    measure: Measure = field(default_factory=Measure)
    keep_going: bool = False
    jobs: int = 1  # number of processes


class _Page(NamedTuple):
    listed: dict[str, Any]  # as of `list_report`
    lines: tuple[str, ...]  # the state in words
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...]


def write_timelines(options: TimelineOptions, *, as_json: bool) -> int:
    """Write a page per machine and set of rules, and an index; print their paths; return the exit code, 0.

    A summary of each timeline is printed, too. `as_json`: print an object with ``directory, index, reports``
    (of `list_report`), ``skipped`` (the number of skipped parts) and ``notes`` instead of paths and
    summaries. Skipped parts and notes are written to stderr in any case; existing pages are replaced. Without
    a server, a named model and a champion, versions are not judged, which a note says. Raises
    InputError if rules, results or a named model cannot be read or do not fit together, if no machine has a
    baseline and targets, if a server does not answer, or if a server is given together with a model or a base
    rate. With ``options.keep_going``, wrong parts of the results are skipped instead.
    """
    if options.model is not None and options.server is not None:
        raise InputError("--model and --server: both say who judges; expected one of them")
    if options.base_rate is not None and options.server is not None:
        raise InputError("--base-rate and --server: a server has its own base rate; expected one of them")
    with Screen() as screen:
        pages, skipped = _write_pages(options, screen.show_progress)
    skipped += [error for written in pages for error in written.skipped]
    print_skipped(skipped)
    notes = list(dict.fromkeys(note for written in pages for note in written.notes))
    print_notes(notes)
    if as_json:
        content = {
            "directory": str(options.output),
            "index": "index.html",
            "reports": [written.listed for written in pages],
            "skipped": len(skipped),
            "notes": notes,
        }
        lines = [json.dumps(content, indent=2)]
    else:
        lines = []
        for written in pages:
            lines += [str(options.output / written.listed["file"]), *written.lines]
        lines.append(f"{len(pages)} timelines -> {options.output / 'index.html'}")
    write_output("".join(f"{line}\n" for line in lines), None)
    return 0


def _write_pages(options: TimelineOptions, advance: Advance) -> tuple[list[_Page], list[InputError]]:
    sets = [rule_set for path in options.rules for rule_set in rules.read_rule_sets(path)]
    with ThreadPoolExecutor(1) as loader:
        # the model loads, which takes seconds, while other processes read the results
        loading = loader.submit(choose_judge, options.model, options.server, options.base_rate)
        read = read_folder(
            options.results,
            options.measure,
            keep_going=options.keep_going,
            jobs=options.jobs,
            advance=lambda done, total: advance(done, total, "reading"),
        )
        loading.result()
    timelines = [timeline for rule_set in sets for timeline in choose_runs(read.runs, rule_set)]
    files = unique_file_names(f"{timeline.rules.title} {timeline.machine}" for timeline in timelines)
    from joblib import Parallel, delayed

    n_jobs = min(options.jobs, len(timelines))
    judging = (lambda done, total: advance(done, total, "judging")) if n_jobs == 1 else None
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", max_nbytes=None)
    write = partial(delayed(_write_page), options, read.notes, judging=judging)
    pages = []
    for written in parallel(map(write, timelines, files)):
        pages.append(written)
        if len(timelines) > 1:
            advance(len(pages), len(timelines), "writing")
    write_text(options.output / "index.html", index_page([written.listed for written in pages]))
    return pages, list(read.skipped)


def _write_page(
    options: TimelineOptions,
    notes: Sequence[str],
    timeline: ChosenRuns,
    file: str,
    judging: Callable[[int, int], None] | None,
) -> _Page:
    problems = Problems(options.keep_going)
    way = Path(os.path.relpath(options.results.absolute(), options.output.absolute())).as_posix()
    judge = choose_judge(options.model, options.server, options.base_rate)
    with garbage_collection_off():
        report = assemble_report(
            timeline, options.results, way, judge, problems=problems, notes=notes, advance=judging
        )
        write_text(options.output / file, timeline_page(report))
    listed, lines = list_report(report, file), tuple(summary_lines(report))
    return _Page(listed, lines, tuple(problems.skipped), report.notes)


@lru_cache(1)
def choose_judge(model: str | None, server: str | None, base_rate: BaseRateOption = None) -> TimelineJudge:
    """Return the judge: the server if given, else the model, else the champion; the last judge is cached.

    A call with the arguments of the last one returns its judge, even if the champion has changed. Without a
    champion that can be read, ``answering`` of the judge is None, and ``note`` has the reason. Raises
    InputError if the named model is missing or unreadable, if `server` is not an address (it is not
    contacted), or if the package perfjudge-client, which `server` needs, is not installed.
    `base_rate`: as for `judge_sides`; ignored with `server`.
    """
    if server is not None:
        return TimelineJudge(server_judge(server), f"the server {server}")
    from serving.comparisons.model import load_judge

    try:
        served = load_judge(model)
    except InputError as error:
        if model is not None:
            raise
        return TimelineJudge(None, "", f"versions are not judged: {error}")
    name = f"{served.ref.name} {served.ref.version} ({served.model.card.model})"
    return TimelineJudge(model_judge(served, base_rate), name)


def unique_file_names(names: Iterable[str]) -> list[str]:
    """Return a distinct file name for each name, in order, with suffix ``.html``; never ``index.html``.

    The part before the suffix has lower-case ASCII letters, digits and hyphens: accents and other non-ASCII
    characters are dropped, and other ASCII characters in a row become one hyphen, except at both ends. It has
    at most 80 characters, before a number that makes it distinct; "timeline" if nothing is left.

    Examples
    --------
    >>> unique_file_names(["RHEL 8 m1", "RHEL-8 M1", "../.."])
    ['rhel-8-m1.html', 'rhel-8-m1-2.html', 'timeline.html']
    """
    taken, file_names = {"index"}, []
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        base = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-") or "timeline"
        slugs = chain([base], (f"{base}-{number}" for number in count(2)))
        slug = next(slug for slug in slugs if slug not in taken)
        taken.add(slug)
        file_names.append(f"{slug}.html")
    return file_names
