"""Reading, judging and printing verdicts for the command line, for every family."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from data.errors import InputError, one_line, visible
from data.tables.files import replacing, writing
from data.tables.formats import TABLES
from data.tables.problems import unknown
from serving.reports.verdict_lines import Lines, as_junit, as_markdown, as_plain
from serving.supply import FamilyPlugin, Importing, Judging, supplies

Form = TypeVar("Form", bound=str)
#: Output forms by file suffix; other suffixes have none.
FORMS_BY_SUFFIX = {
    ".json": ("json",),
    ".xml": ("xml", "junit"),
    ".md": ("markdown",),
    ".markdown": ("markdown",),
    ".html": ("html",),
    ".csv": ("csv",),
    ".txt": ("table", "text"),
    ".parquet": (),
    ".yaml": (),
}


@dataclass(frozen=True)
class Wanted:
    """How the answer is to be given.

    Attributes
    ----------
    shown : str
        One of table, json, xml, markdown, junit.
    output : Path or None
        The file; None = standard output.
    fail_on_regression : bool
        Whether a regression makes the exit code 1.
    """

    shown: str
    output: Path | None
    fail_on_regression: bool


@dataclass(frozen=True)
class PrintableJudgement:
    """A judgement of any family; each output form is produced on demand.

    Attributes
    ----------
    fails : int
        Number of ``fail`` verdicts.
    lines, json, xml : callable
        Return the rows of the text table, the JSON of the HTTP answer, and XML.
    """

    fails: int
    lines: Callable[[], Lines]
    json: Callable[[], str]
    xml: Callable[[], bytes]


def judge_source(
    source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool, options: Mapping[str, Any]
) -> int:
    """Judge a source with the model of the family that it belongs to, and return the exit code.

    Parameters
    ----------
    uri : str or None
        The model's address; None: the champion.
    keep_going : bool
        Skip bad data, and report it on stderr.
    options : mapping
        The family-specific options that were given.

    Raises
    ------
    InputError
        If the source cannot be read, an option does not apply to its family, or the model is missing.
    """
    judging = supply_of(source).judging
    assert judging is not None
    refuse_others(options, judging, source)
    return judging.judge(source, uri, wanted, keep_going=keep_going, **options)


def judged_again(
    judging: Judging, source: Path, uri: str, form: str, *, keep_going: bool = False, **options: Any
) -> bytes:
    """Return what ``perfjudge judge`` answers about a source in a form; errors as of `judge_source`."""
    with TemporaryDirectory() as scratch:
        output = Path(scratch) / "answer"
        wanted = Wanted(form, output, fail_on_regression=False)
        judging.judge(source, uri, wanted, keep_going=keep_going, **options)
        return output.read_bytes()


def supply_of(source: Path) -> FamilyPlugin:
    """Return the family that judges a source: the one that recognises it, else the one that takes any."""
    known = [(one, one.judging) for one in supplies() if one.judging is not None]
    found = (one for one, judging in known if judging.recognised is not None and judging.recognised(source))
    return next(found, None) or next(one for one, judging in known if judging.recognised is None)


def refuse_others(given: Collection[str], chosen: Judging | Importing, source: Path) -> None:
    """Refuse options of other families than the one that was chosen; InputError names the first."""
    for name in given:
        if name not in chosen.options:
            raise InputError(
                f"holds {chosen.what}, which --{name.rstrip('_').replace('_', '-')} is not for", file=source
            )


def tell_skipped(skipped: Sequence[InputError]) -> None:
    """Print the skipped errors and their number on stderr."""
    for error in skipped:
        sys.stderr.write(f"skipped: {error}\n")
    if skipped:
        sys.stderr.write(f"skipped {len(skipped)} in all\n")


def tell_notes(notes: Sequence[str]) -> None:
    """Print the assumptions made, one per line, on stderr."""
    sys.stderr.writelines(f"{one_line(f'note: {note}')}\n" for note in notes)


def give(told: PrintableJudgement, wanted: Wanted) -> int:
    """Write a judgement as it is wanted, and return the exit code."""
    if wanted.shown == "json":
        content: str | bytes = told.json()
    elif wanted.shown == "xml":
        content = told.xml()
    elif wanted.shown == "table" and wanted.output is None and sys.stdout.isatty():
        write(as_plain(told.lines(), terminal=True), None, styled=True)
        return 1 if wanted.fail_on_regression and told.fails else 0
    else:
        content = _TABLES[wanted.shown](told.lines())
    write(content, wanted.output)
    return 1 if wanted.fail_on_regression and told.fails else 0


def form_of(given: Form | None, output: Path | None, forms: Sequence[Form]) -> Form:
    """Return the output form, from an option or from the suffix of the output file.

    Parameters
    ----------
    given : str or None
        The form that an option names.
    output : Path or None
        The file to write; its suffix decides if `given` is None.
    forms : sequence of str
        Forms that the command supports, the default first.

    Raises
    ------
    InputError
        If the file's suffix belongs to another form, or its directory does not exist.
    """
    if output is None:
        return given or forms[0]
    _require_directory(output)
    meant = FORMS_BY_SUFFIX.get(output.suffix.lower())
    if meant is None:
        return given or forms[0]
    possible = [form for form in forms if form in meant and given in {None, form}]
    if not possible:
        wanted = {given} if given else set(forms)
        known = [suffix for suffix, meant in FORMS_BY_SUFFIX.items() if wanted.intersection(meant)]
        what = f"--format {given} does not write" if given else "no --format writes"
        raise InputError(f"{what} a {output.suffix} file; expected {', '.join(known)}", file=output)
    return possible[0]


def _require_directory(output: Path) -> None:
    if not output.parent.is_dir():
        raise InputError("no such directory", file=output.parent)


def write(content: bytes | str, output: Path | None, *, styled: bool = False) -> None:
    """Write to a file in one piece, or to standard output.

    Parameters
    ----------
    content : bytes or str
        Text is written with control and invisible characters as escapes, bytes as they are.
    output : Path or None
        None: standard output.
    styled : bool
        Whether the text has colours for a terminal, whose control characters stay.
    """
    if isinstance(content, str):
        content = (content if styled else visible(content)).encode()
    if output is None:
        with writing("standard output"):
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
    else:
        _require_directory(output)
        with replacing(output) as path:
            path.write_bytes(content)


_TABLES = {"table": as_plain, "markdown": as_markdown, "junit": as_junit}


def import_sources(
    kind: str,
    sources: list[Path],
    directory: Path,
    *,
    keep_going: bool,
    as_json: bool,
    options: Mapping[str, Any],
) -> int:
    """Read `sources`, write their tables to `directory`, and return the exit code.

    Parameters
    ----------
    kind : str
        The format of all sources; with the first source it decides the family.
    keep_going : bool
        Skip bad data, report it on stderr, and count it.
    as_json : bool
        Print the summary on standard output as JSON.
    options : mapping
        The family-specific options that were given.

    Raises
    ------
    InputError
        At the first error, unless `keep_going`; or if an option does not apply to the family.
    """
    importing = _importing(kind, sources[0])
    refuse_others(options, importing, sources[0])
    counts = importing.read(kind, sources, directory, keep_going=keep_going, **options)
    tell_skipped(counts.skipped)
    tell_notes(counts.notes)
    numbers = {**counts.rows, "skipped": len(counts.skipped)}
    told = ", ".join(f"{count} {name}" for name, count in numbers.items())
    answer = json.dumps(numbers | {"directory": str(directory)}) if as_json else f"{told} -> {directory}"
    sys.stdout.write(answer + "\n")
    return 0


def _importing(kind: str, source: Path) -> Importing:
    """Return how to read a source: the family's that it is of, else the first one's, which takes any."""
    importing = [one.importing for one in supplies() if one.importing is not None]
    known = [(one, one.formats()) for one in importing]
    names = dict.fromkeys(name for _, formats in known for name in formats)
    if kind not in names:
        raise InputError(f'format "{kind}" {unknown(kind, names)}')
    for one, formats in known[1:]:
        # all families have tables, each its own
        if formats[kind].recognises(source) if kind == TABLES else kind in formats:
            return one
    return importing[0]
