"""Comparisons in JSON, as requests to judge bring them (the design's ``{"comparisons": [...]}``)."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.comparisons.columns import Series
from data.comparisons.reading import Builder
from data.comparisons.tables import FIVE_NUMBERS, STATS, ComparisonTables
from data.errors import InputError
from data.tables.files import content_of
from data.tables.nearest import unknown
from data.tables.problems import Problems

BETTER = ("lower", "higher")
OPTIONAL = ("benchmark", "machine", "unit")
SIDES = ("baseline", "target")
#: All keys of a request, of a comparison, and of a configuration; those of a summary are `STATS`.
REQUEST = ("comparisons",)
COMPARISON = ("comparison_id", *OPTIONAL, "operation", "better", "configurations")
CONFIGURATION = ("threads", *SIDES, "history")
#: bool is an int to isinstance, but no number here.
_NUMBER_TYPES = frozenset((int, float))
_QUOTED = 60
#: As in the XML formats.
MAX_THREADS = 999_999


def read(path: Path, problems: Problems, taken: Taken | None = None) -> ComparisonTables:
    """Read a JSON file.

    Parameters
    ----------
    path : Path
    problems : Problems
        As for `of_request`.
    taken : Taken, optional
        The names that other files have taken, and that this one takes.

    Raises
    ------
    InputError
        If the file is missing, empty, too large or no JSON; see also `of_request`.
    """
    return of_request(content_of(path), problems, str(path), taken)


def tables_of(content: object, name: str = "request.json") -> ComparisonTables:
    """Turn a request into tables.

    Raises
    ------
    InputError
        At the first thing that is wrong; see `of_request`.
    """
    return of_request(content, Problems(), name)


def of_request(
    content: object, problems: Problems, name: str, taken: Taken | None = None
) -> ComparisonTables:
    """Turn a request, already loaded from JSON, into tables.

    Parameters
    ----------
    content : object
        ``{"comparisons": [...]}``. A comparison needs ``comparison_id``, ``operation``, ``better`` and
        ``configurations``; ``benchmark``, ``machine`` and ``unit`` are "unknown" where they are left out. Any
        other key is wrong.
    problems : Problems
        Takes what is wrong with one comparison; that comparison is skipped.
    name : str
        What messages call the request.
    taken : Taken, optional
        The names that earlier requests have taken.

    Returns
    -------
    ComparisonTables
        The baseline's order is the length of the longest history, the target's is one more. Comparisons of
        the same operation share no samples: from the second on, their machine is called ``<machine> #2``.

    Raises
    ------
    InputError
        If there is no comparison, or, unless ``problems.keep_going``, at the first thing that is wrong.
    """
    _require_known(_Place(name), content, REQUEST)
    comparisons = _member(_Place(name), content, "comparisons", list)
    if not comparisons:
        raise InputError("comparisons is empty; expected at least one", file=name)
    builder, taken = Builder(), taken or Taken()
    for index, comparison in enumerate(comparisons):
        try:
            _add(_Place(name, f"comparisons[{index}]"), comparison, taken, builder)
        except InputError as error:
            problems.add(error)
    return builder.take()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in which request a value stands."""

    name: str
    path: str = ""

    def at(self, step: str) -> _Place:
        """Go to a member of an object (``.key``) or of a list (``[i]``)."""
        return _Place(self.name, f"{self.path}{step}".removeprefix("."))

    def wrong(self, value: object, expected: str) -> InputError:
        what = self.path or "the request"
        return InputError(f"{what}={_quoted(value)} is not {expected}", file=self.name)

    def error(self, problem: str) -> InputError:
        return InputError(f"{self.path} {problem}", file=self.name)


@dataclass
class Taken:
    """What comparisons are called so far."""

    identifiers: set[str] = field(default_factory=set)
    operations: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def machine(self, benchmark: str, operation: str, machine: str) -> str:
        """Return a name of `machine` that no earlier comparison of this operation has, and take it."""
        key = name = (benchmark, operation, machine)
        while name in self.operations:
            self.operations[key] += 1
            name = (benchmark, operation, f"{machine} #{self.operations[key]}")
        self.operations[name] = 1
        return name[2]


def _add(place: _Place, content: object, taken: Taken, builder: Builder) -> None:
    """Check one comparison, then put it into the tables."""
    _require_known(place, content, COMPARISON)
    identifier = _text(place, content, "comparison_id")
    operation = _text(place, content, "operation")
    better = _text(place, content, "better")
    if better not in BETTER:
        raise place.at(".better").wrong(better, '"lower" or "higher"')
    benchmark, machine, unit = (_text(place, content, key, "unknown") for key in OPTIONAL)
    configurations = list(_configurations(place, _member(place, content, "configurations", list)))
    if identifier in taken.identifiers:
        raise place.at(".comparison_id").error(f"{_quoted(identifier)} stands twice")
    taken.identifiers.add(identifier)
    machine = taken.machine(benchmark, operation, machine)
    baseline = max((len(one.lists) - 2 for one in configurations), default=0)
    common = (benchmark, benchmark, operation, machine, unit, better)
    for one in configurations:
        series = Series(f"{identifier}/{one.threads}", *common, one.threads)
        for order, (numbers, stats) in enumerate(one.lists, baseline + 2 - len(one.lists)):
            if stats is None:
                builder.results.samples(series, order, str(order), numbers)
            else:
                summary = dict(zip(stats, numbers, strict=True))
                builder.results.summary(series, order, str(order), summary)
    orders = (baseline, baseline, baseline + 1, baseline + 1)
    source = f"{place.name} {place.path}"
    builder.comparisons.add(identifier, benchmark, operation, machine, *orders, source)


_Values = tuple["array[float]", "tuple[str, ...] | None"]


@dataclass(frozen=True, slots=True)
class _Configuration:
    """A number of threads and its values: history, oldest first, then baseline, then target."""

    threads: int
    lists: list[_Values]


def _configurations(place: _Place, contents: list[Any]) -> Iterator[_Configuration]:
    seen: set[int] = set()
    for index, content in enumerate(contents):
        here = place.at(f".configurations[{index}]")
        _require_known(here, content, CONFIGURATION)
        threads = _threads(here, content)
        if threads in seen:
            raise here.at(".threads").error(f"{threads} stands twice")
        seen.add(threads)
        history = _member(here, content, "history", list) if "history" in content else []
        lists = [_samples(here, f".history[{version}]", samples) for version, samples in enumerate(history)]
        lists += [_samples(here, f".{side}", _member(here, content, side, object)) for side in SIDES]
        yield _Configuration(threads, lists)


def _samples(place: _Place, step: str, content: object) -> _Values:
    if isinstance(content, list):
        return _numbers(place, step, content), None
    if not isinstance(content, dict):
        raise place.at(step).wrong(content, "a list of numbers or a five-number summary")
    here = place.at(step)
    _require_known(here, content, STATS)
    stats = tuple(name for name in STATS if name in content or name in FIVE_NUMBERS)
    return array(
        "d", [_number(here.at(f".{name}"), _member(here, content, name, object)) for name in stats]
    ), stats


def _numbers(place: _Place, step: str, content: list[Any]) -> array[float]:
    """Check a whole list at once, and go through it one by one only to say what is wrong."""
    if _NUMBER_TYPES.issuperset(map(type, content)):
        try:
            values = array("d", content)
        except OverflowError:
            pass
        else:
            if math.isfinite(sum(values)):
                return values
    here = place.at(step)
    return array("d", [_number(here.at(f"[{index}]"), value) for index, value in enumerate(content)])


def _number(place: _Place, value: Any) -> float:
    if type(value) not in _NUMBER_TYPES:
        raise place.wrong(value, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise place.wrong(value, "a finite number")
    return number


def _threads(place: _Place, content: object) -> int:
    threads = _member(place, content, "threads", object)
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise place.at(".threads").wrong(threads, f"a whole number from 1 to {MAX_THREADS}")
    return threads


def _require_known(place: _Place, content: object, known: Sequence[str]) -> None:
    """Refuse an object with a key that nobody reads; it is looked at first, as it may be a misspelt one."""
    if isinstance(content, dict) and not content.keys() <= set(known):
        strange = next(key for key in content if key not in known)[:_QUOTED]
        raise place.at(f".{strange}").error(unknown(strange, known))


_EXPECTED: dict[type, str] = {list: "a list", str: "a string"}


def _member(place: _Place, content: object, key: str, kind: type) -> Any:
    if not isinstance(content, dict):
        raise place.wrong(content, "an object")
    if key not in content:
        raise (place.error(f"lacks {key}") if place.path else InputError(f"lacks {key}", file=place.name))
    value = content[key]
    if not isinstance(value, kind):
        raise place.at(f".{key}").wrong(value, _EXPECTED[kind])
    return value


def _text(place: _Place, content: object, key: str, default: str | None = None) -> str:
    if default is not None and isinstance(content, dict) and key not in content:
        return default
    text = str(_member(place, content, key, str))
    if not text.strip():
        raise place.at(f".{key}").error("is empty")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise place.at(f".{key}").error("holds half a surrogate pair")
    return text


def _quoted(value: object) -> str:
    """Return a value as JSON has it, short enough for one line."""
    if isinstance(value, list | dict):
        return "[...]" if isinstance(value, list) else "{...}"
    text = json.dumps(value) if not isinstance(value, int) or abs(value) < 1 << _QUOTED else "a huge number"
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
