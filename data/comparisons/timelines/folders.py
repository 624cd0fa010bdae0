"""All results below a folder (seed 000, section 5.2.2)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from data.comparisons import formats
from data.comparisons.formats import result_xml
from data.comparisons.params import Measure
from data.comparisons.timelines import runs
from data.comparisons.timelines.heats import BESIDE
from data.comparisons.timelines.runs import TimelineRun
from data.errors import InputError
from data.parallel import uncollected
from data.tables.files import content_of
from data.tables.problems import Problems

#: Files that a process reads at once.
_TOGETHER = 4
#: Fewer files are read by this process.
_FEW = 8


class ResultPlace(NamedTuple):
    """Where a result may be."""

    kind: Literal["xml", "json", "tables"]
    path: Path
    source: str


@dataclass
class Folder:
    """What is below a folder.

    Attributes
    ----------
    places : list of ResultPlace
        Where results may be.
    links : int
        Symbolic links, which are passed over: they may lead out, or around in circles.
    """

    places: list[ResultPlace] = field(default_factory=list)
    links: int = 0

    @classmethod
    def of(cls, root: Path) -> Folder:
        """Look through a folder and all below it, in the order of names.

        Raises
        ------
        InputError
            If it is no folder.
        """
        if not root.is_dir():
            raise InputError(
                "is no directory of results" if root.exists() else "no such directory", file=root
            )
        found = cls()
        for where, below, files in os.walk(root):
            here = Path(where)
            below.sort()
            links = [name for name in (*below, *files) if (here / name).is_symlink()]
            found.links += len(links)
            found._take(root, here, sorted(set(files) - set(links)))
        return found

    def _take(self, root: Path, here: Path, files: Sequence[str]) -> None:
        if "results.parquet" in files:
            self.places.append(ResultPlace("tables", here, _below(root, here)))
        for name in files:
            path = here / name
            kind = _kind(path)
            if kind is not None and path.is_file():
                self.places.append(ResultPlace(kind, path, _below(root, path)))


def _below(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _kind(path: Path) -> Literal["xml", "json"] | None:
    if path.name.endswith(BESIDE) or result_xml.is_settings(path):
        return None
    return {".xml": "xml", ".json": "json"}.get(path.suffix.lower())  # type: ignore[return-value] # mypy takes str


class FoundRuns(NamedTuple):
    """What reading one place gave."""

    runs: tuple[TimelineRun, ...]
    skipped: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()
    passed: str | None = None


@dataclass(frozen=True)
class ReadRuns:
    """All results, in the order of their places, and what was skipped or assumed to read them."""

    runs: tuple[TimelineRun, ...]
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...]


def read(
    root: Path,
    measure: Measure,
    *,
    keep_going: bool = False,
    jobs: int = 1,
    advance: Callable[[int, int], None] | None = None,
) -> ReadRuns:
    """Read every result below a folder.

    Parameters
    ----------
    root : Path
    measure : Measure
        What is measured and which direction is better, where files do not say.
    keep_going : bool
        Skip what is bad.
    jobs : int
        How many processes read.
    advance : callable, optional
        Is told how many of how many places have been read.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless `keep_going`; and if there is no result at all.
    """
    folder = Folder.of(root)
    read_one = partial(_read_place, measure=measure, keep_going=keep_going)
    found: list[FoundRuns] = []
    for some in _spread(read_one, folder.places, jobs):
        for one in some:
            if one.skipped and not keep_going:
                raise one.skipped[0]
            found.append(one)
        if advance is not None:
            advance(len(found), len(folder.places))
    runs_found = tuple(run for one in found for run in one.runs)
    skipped = tuple(error for one in found for error in one.skipped)
    if not runs_found and not skipped:
        raise InputError("holds no result of a run (result XML, JSON or results.parquet)", file=root)
    return ReadRuns(runs_found, skipped, tuple(_notes(folder, found)))


def _spread(
    read_one: Callable[[ResultPlace], FoundRuns], places: Sequence[ResultPlace], jobs: int
) -> Iterator[list[FoundRuns]]:
    """Read places, in this process or in several, in their order."""
    parts = [places[start : start + _TOGETHER] for start in range(0, len(places), _TOGETHER)]
    if jobs == 1 or len(places) < _FEW:
        yield from ([read_one(place) for place in part] for part in parts)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, return_as="generator", max_nbytes=None)
    yield from parallel(delayed(_read_some)(read_one, part) for part in parts)


def _read_some(
    read_one: Callable[[ResultPlace], FoundRuns], places: Sequence[ResultPlace]
) -> list[FoundRuns]:
    return [read_one(place) for place in places]


def _read_place(place: ResultPlace, *, measure: Measure, keep_going: bool) -> FoundRuns:
    problems = Problems(keep_going)
    try:
        with uncollected():
            found = _read(place, problems, measure)
    except InputError as error:
        return FoundRuns((), (*problems.skipped, error.within(place.path)))
    if found is None:
        return FoundRuns((), passed=place.source)
    notes = (note.replace(str(place.path), place.source) for note in problems.notes)
    return FoundRuns(found, tuple(problems.skipped), tuple(notes))


def _read(place: ResultPlace, problems: Problems, measure: Measure) -> tuple[TimelineRun, ...] | None:
    """Read one place; None if it holds something else than a run."""
    if place.kind == "tables":
        return tuple(runs.of_tables(place.path, place.source, problems))
    if place.kind == "xml":
        if formats.sniff(place.path) != "result-xml":
            return None
        return (runs.of_xml(place.path, place.source, problems, measure),)
    content = content_of(place.path)
    if not isinstance(content, dict) or "results" not in content:
        return None
    return tuple(runs.of_json(place.path, place.source, problems, measure))


def _notes(folder: Folder, found: Sequence[FoundRuns]) -> Iterator[str]:
    """Yield what was assumed, the same of many files once."""
    if folder.links:
        yield f"{folder.links} symbolic links are passed over"
    passed = [one.passed for one in found if one.passed is not None]
    if passed:
        yield f"{len(passed)} files hold no run, and are passed over, such as {passed[0]}"
    told = [note.partition(" ") for one in found for note in one.notes]
    counts = Counter(what for _, _, what in told)
    first = {what: source for source, _, what in reversed(told)}
    for what, count in counts.items():
        others = f" (and {count - 1} more)" if count > 1 else ""
        yield f"{first[what]}{others} {what}"
