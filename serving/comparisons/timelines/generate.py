"""Timelines of all machines and sets of rules, written as pages (seed 000, section 5.2.4)."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from data.comparisons.params import Measure
from data.comparisons.timelines import rules
from data.comparisons.timelines.runs import read_folder
from data.comparisons.timelines.selection import ChosenRuns, chosen
from data.errors import InputError
from data.measure.session import Screen
from data.parallel import uncollected
from data.tables.files import write_text
from data.tables.problems import Problems
from serving.answering import tell_notes, tell_skipped, write
from serving.client import JudgeError
from serving.comparisons.timelines.assembled import TimelineJudge, TimelineReport, assembled
from serving.comparisons.timelines.judged import by_model, by_server
from serving.comparisons.timelines.page import ListedReport, contents, page

#: Letters of a file's name.
_LONGEST = 80
_FAIL = 3

#: Takes how many of how many are done, and what is being done.
Advance = Callable[[int, int, str], None]


@dataclass(frozen=True)
class TimelineWish:
    """What is to be made."""

    rules: tuple[Path, ...]
    results: Path  # results, output: Folders
    output: Path
    #: model, server: who judges: a model by its address, or a server; None: the champion, if there is one
    model: str | None = None
    server: str | None = None
    measure: Measure = field(default_factory=Measure)
    keep_going: bool = False
    jobs: int = 1  # how many processes work


class _Page(NamedTuple):
    listed: ListedReport
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...]


def write_timelines(wish: TimelineWish, *, as_json: bool) -> int:
    """Write a page per machine and set of rules and one that lists them, print them; return the exit code.

    Raises InputError if rules, results or the model cannot be read or don't fit together, or if a server
    does not answer.
    """
    if wish.model is not None and wish.server is not None:
        raise InputError("--model and --server: both say who judges; expected one of them")
    try:
        with Screen() as screen:
            pages, skipped = _generate(wish, screen.advance)
    except JudgeError as error:
        raise InputError(f"--server {wish.server}: {error}") from error
    skipped += [error for page in pages for error in page.skipped]
    tell_skipped(skipped)
    notes = list(dict.fromkeys(note for page in pages for note in page.notes))
    tell_notes(notes)
    if as_json:
        content = {
            "directory": str(wish.output),
            "index": "index.html",
            "reports": [asdict(page.listed) for page in pages],
            "skipped": len(skipped),
            "notes": notes,
        }
        write(json.dumps(content, indent=2) + "\n", None)
    else:
        lines = [
            f"{wish.output / one.file}: {one.versions} versions, {one.operations} operations; "
            f"{one.fails} with a fail, {one.changes} with a lasting change, {one.unstable} unstable\n"
            for one in (page.listed for page in pages)
        ]
        write("".join([*lines, f"{len(pages)} timelines -> {wish.output / 'index.html'}\n"]), None)
    return 0


def _generate(wish: TimelineWish, advance: Advance) -> tuple[list[_Page], list[InputError]]:
    """Write all pages; return them, and what was skipped to read the results."""
    sets = [one for path in wish.rules for one in rules.read(path)]
    with ThreadPoolExecutor(1) as loader:
        # a model takes seconds to load, and the processes that read are others
        loading = loader.submit(judges, wish.model, wish.server)
        read = read_folder(
            wish.results,
            wish.measure,
            keep_going=wish.keep_going,
            jobs=wish.jobs,
            advance=lambda done, of: advance(done, of, "reading"),
        )
        loading.result()
    timelines = [one for each in sets for one in chosen(read.runs, each)]
    files = slugs(f"{one.rules.title} {one.machine}" for one in timelines)
    pages = []
    for written in _pages(wish, read.notes, list(zip(timelines, files, strict=True)), advance):
        pages.append(written)
        if len(timelines) > 1:
            advance(len(pages), len(timelines), "writing")
    write_text(wish.output / "index.html", contents([page.listed for page in pages]))
    return pages, list(read.skipped)


def _pages(
    wish: TimelineWish, notes: Sequence[str], timelines: Sequence[tuple[ChosenRuns, str]], advance: Advance
) -> Iterator[_Page]:
    """Write the pages, in a process each if there are several."""
    if wish.jobs == 1 or len(timelines) == 1:
        yield from (_page(wish, notes, one, file, advance) for one, file in timelines)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=min(wish.jobs, len(timelines)), return_as="generator", max_nbytes=None)
    yield from parallel(delayed(_page)(wish, notes, one, file) for one, file in timelines)


def _page(
    wish: TimelineWish, notes: Sequence[str], one: ChosenRuns, file: str, advance: Advance | None = None
) -> _Page:
    problems = Problems(wish.keep_going)
    way = Path(os.path.relpath(wish.results.absolute(), wish.output.absolute())).as_posix()
    judge = judges(wish.model, wish.server)
    judging = None if advance is None else lambda done, of: advance(done, of, "judging")
    with uncollected():
        report = assembled(one, wish.results, way, judge, problems=problems, notes=notes, advance=judging)
        write_text(wish.output / file, page(report))
    return _Page(listed_as(report, file), tuple(problems.skipped), report.notes)


@lru_cache(1)
def judges(model: str | None, server: str | None) -> TimelineJudge:
    """Return the server, the model, or the champion that judges; a judge of nothing without a champion.

    Raises InputError if there is no such model or server.
    """
    if server is not None:
        from serving.client import Judge

        try:
            return TimelineJudge(by_server(Judge(server)), f"the server {server}")
        except JudgeError as error:
            raise InputError(f"--server: {error}") from error
    from serving.comparisons.model import load

    try:
        served = load(model)
    except InputError as error:
        if model is not None:
            raise
        return TimelineJudge(None, "", f"versions are not judged: {error}")
    ref = served.ref
    return TimelineJudge(by_model(served), f"{ref.name} {ref.version} ({served.model.card.model})")


def listed_as(report: TimelineReport, file: str) -> ListedReport:
    """Return how the list of timelines names a report."""
    shown = report.operations
    fails = sum(
        bool((one.against_baseline == _FAIL).any() or (one.against_before == _FAIL).any()) for one in shown
    )
    return ListedReport(
        file,
        report.title,
        report.machine,
        len(report.versions),
        len(shown),
        fails,
        sum(bool(one.changes) for one in shown),
        sum(one.unstable for one in shown),
    )


def slugs(names: Iterable[str]) -> list[str]:
    """Return a file's name for each name: of small letters, figures and hyphens, and all distinct.

    Examples
    --------
    >>> slugs(["RHEL 8 m1", "RHEL-8 M1", "../.."])
    ['rhel-8-m1.html', 'rhel-8-m1-2.html', 'timeline.html']
    """
    taken, found = {"index"}, []
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        slug = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-") or "timeline"
        numbered = (f"{slug}-{number}" for number in range(2, len(taken) + 3))
        chosen_slug = slug if slug not in taken else next(one for one in numbered if one not in taken)
        taken.add(chosen_slug)
        found.append(f"{chosen_slug}.html")
    return found
