"""Timelines of all machines and sets of rules, written as pages (seed 000, section 5.2.4)."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
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
from serving.asking import JudgeError
from serving.comparisons.timelines.assembled import TimelineJudge, TimelineReport, assembled
from serving.comparisons.timelines.page import ListedReport, contents

#: Letters of a file's name.
_LONGEST = 80
_FAIL = 3

#: Is told how many of how many are done, and what is being done.
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


class Written(NamedTuple):
    """The pages that were written, and what was skipped or assumed to make them."""

    reports: tuple[ListedReport, ...]
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...]


class _Page(NamedTuple):
    listed: ListedReport
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...]


def generate(wish: TimelineWish, advance: Advance | None = None) -> Written:
    """Read results, and write a page per machine and set of rules, and one that lists them.

    Raises InputError if rules, results or the model cannot be read or don't fit together.
    """
    if wish.model is not None and wish.server is not None:
        raise InputError("--model and --server: both say who judges; expected one of them")
    sets = [one for path in wish.rules for one in rules.read(path)]
    tell = advance or _silent
    with ThreadPoolExecutor(1) as beside:
        # a model takes seconds to load, and the processes that read are others
        judging = beside.submit(judges, wish.model, wish.server)
        read = read_folder(
            wish.results,
            wish.measure,
            keep_going=wish.keep_going,
            jobs=wish.jobs,
            advance=lambda done, of: tell(done, of, "reading"),
        )
        judging.result()
    wanted = [one for each in sets for one in chosen(read.runs, each)]
    files = slugs(f"{one.rules.title} {one.machine}" for one in wanted)
    pages = []
    for page in _spread(wish, read.notes, list(zip(wanted, files, strict=True)), tell):
        pages.append(page)
        if len(wanted) > 1:
            tell(len(pages), len(wanted), "writing")
    listed = tuple(page.listed for page in pages)
    write_text(wish.output / "index.html", contents(listed))
    skipped = (*read.skipped, *(error for page in pages for error in page.skipped))
    notes = dict.fromkeys(note for page in pages for note in page.notes)
    return Written(listed, skipped, tuple(notes))


def _silent(done: int, of: int, what: str) -> None:
    """Tell nobody."""


def _spread(
    wish: TimelineWish, notes: Sequence[str], wanted: Sequence[tuple[ChosenRuns, str]], tell: Advance
) -> Iterator[_Page]:
    """Make the pages, a process each if they are several."""
    if wish.jobs == 1 or len(wanted) == 1:
        yield from (_page(wish, notes, one, file, tell) for one, file in wanted)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=min(wish.jobs, len(wanted)), return_as="generator", max_nbytes=None)
    yield from parallel(delayed(_page)(wish, notes, one, file) for one, file in wanted)


def _page(
    wish: TimelineWish, notes: Sequence[str], one: ChosenRuns, file: str, tell: Advance = _silent
) -> _Page:
    from serving.comparisons.timelines.page import page

    problems = Problems(wish.keep_going)
    way = Path(os.path.relpath(wish.results.absolute(), wish.output.absolute())).as_posix()
    judging = partial(_told, tell)
    who = judges(wish.model, wish.server)
    with uncollected():
        report = assembled(one, wish.results, way, who, problems=problems, notes=notes, advance=judging)
        write_text(wish.output / file, page(report))
    return _Page(listed_as(report, file), tuple(problems.skipped), report.notes)


def _told(tell: Advance, done: int, of: int) -> None:
    tell(done, of, "judging")


@lru_cache(1)
def judges(model: str | None, server: str | None) -> TimelineJudge:
    """Return who judges: a server, a model, or the champion; nobody if there is no champion.

    Raises InputError if there is no such model or server.
    """
    if server is not None:
        return _of_server(server)
    from serving.comparisons.model import load
    from serving.comparisons.timelines.judged import by_model

    try:
        served = load(model)
    except InputError as error:
        if model is not None:
            raise
        return TimelineJudge(None, "", f"versions are not judged: {error}")
    ref = served.ref
    return TimelineJudge(by_model(served), f"{ref.name} {ref.version} ({served.model.card.model})")


def _of_server(url: str) -> TimelineJudge:
    from serving.client import Judge, JudgeError
    from serving.comparisons.timelines.judged import by_server

    try:
        return TimelineJudge(by_server(Judge(url)), f"the server {url}")
    except JudgeError as error:
        raise InputError(f"--server: {error}") from error


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


def give_timelines(wish: TimelineWish, *, as_json: bool) -> int:
    """Write the pages, say what was written, and return the exit code.

    Raises InputError as of `serving.comparisons.timelines.generate.generate`, or if a server does not
    answer.
    """
    try:
        with Screen() as screen:
            written = generate(wish, screen.advance)
    except JudgeError as error:
        raise InputError(f"--server {wish.server}: {error}") from error
    tell_skipped(written.skipped)
    tell_notes(written.notes)
    write(_as_json(wish, written) if as_json else _as_text(wish, written), None)
    return 0


def _as_json(wish: TimelineWish, written: Written) -> str:
    content = {
        "directory": str(wish.output),
        "index": "index.html",
        "reports": [asdict(one) for one in written.reports],
        "skipped": len(written.skipped),
        "notes": written.notes,
    }
    return json.dumps(content, indent=2) + "\n"


def _as_text(wish: TimelineWish, written: Written) -> str:
    lines = [
        f"{wish.output / one.file}: {one.versions} versions, {one.operations} operations; "
        f"{one.fails} with a fail, {one.changes} with a lasting change, {one.unstable} unstable"
        for one in written.reports
    ]
    return "\n".join([*lines, f"{len(written.reports)} timelines -> {wish.output / 'index.html'}", ""])
