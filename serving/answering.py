"""Commands of all families: judge or import sources, and print verdicts."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from data.errors import InputError, escape_invisible, one_line
from data.tables.files import name_write_errors, replacing
from data.tables.formats import TABLES
from data.tables.problems import unknown_message
from serving.plugins import FamilyPlugin, Importing, Judging, all_plugins
from serving.reports.verdict_lines import VerdictTable, as_junit, as_markdown, as_plain

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
class OutputOptions:
    """The form and the file (None: standard output) of an answer, and whether a regression is exit code 1."""

    shown: str
    output: Path | None
    fail_on_regression: bool


@dataclass(frozen=True)
class PrintableJudgement:
    """A judgement of any family: its number of ``fail`` verdicts, and functions that return its forms."""

    fails: int
    lines: Callable[[], VerdictTable]
    json: Callable[[], str]
    xml: Callable[[], bytes]


def judge_source(
    source: Path, uri: str | None, wanted: OutputOptions, *, keep_going: bool, options: Mapping[str, Any]
) -> int:
    """Judge a source with the model of its family, write the verdicts, and return the exit code.

    It is 1 if a verdict is ``fail`` and `wanted` has ``fail_on_regression``, or if one is ``unsure`` and
    `options`, the given family-specific options, have ``fail_on_unsure``; else 0. `uri` is a model's
    directory or ``models:/...`` address (None: the champion). With `keep_going`, invalid data is skipped
    and reported on stderr. InputError if the source cannot be read, an option does not apply to its
    family, or the model is missing; without `keep_going`, also at the first invalid data.
    """
    judging = plugin_for_source(source).judging
    assert judging is not None
    refuse_other_options(options, judging, source)
    return judging.judge(source, uri, wanted, keep_going=keep_going, **options)


def rejudge_source(
    judging: Judging, source: Path, uri: str, form: str, *, keep_going: bool = False, **options: Any
) -> bytes:
    """Judge a source with the model at `uri`, and return the content of the output file in `form` as bytes.

    `judging` is that of the source's family; `form` is table, json, xml, markdown or junit. Other
    parameters and errors are those of `judge_source`.
    """
    with TemporaryDirectory() as scratch:
        output = Path(scratch) / "answer"
        wanted = OutputOptions(form, output, fail_on_regression=False)
        judging.judge(source, uri, wanted, keep_going=keep_going, **options)
        return output.read_bytes()


def plugin_for_source(source: Path) -> FamilyPlugin:
    """Return the plugin of the first family that recognises a source, else that of ``comparisons``."""
    by_recogniser = {plugin.judging.recognised: plugin for plugin in all_plugins() if plugin.judging}
    fallback = by_recogniser.pop(None)
    recognised = (plugin for is_theirs, plugin in by_recogniser.items() if is_theirs and is_theirs(source))
    return next(recognised, fallback)


def option_of(name: str) -> str:
    """Return the option of a keyword argument: ``from_`` is ``--from``, and ``explain`` is ``--why``."""
    return "--why" if name == "explain" else f"--{name.rstrip('_').replace('_', '-')}"


def refuse_other_options(option_names: Collection[str], chosen: Judging | Importing, source: Path) -> None:
    """Raise an InputError at `source` for the first of `option_names` not in ``chosen.options``."""
    for name in option_names:
        if name not in chosen.options:
            raise InputError(f"holds {chosen.what}, which {option_of(name)} is not for", file=source)


def print_skipped(skipped: Sequence[InputError]) -> None:
    """Print each error, then the number of errors, on stderr; nothing if there are none."""
    sys.stderr.writelines(f"skipped: {error}\n" for error in skipped)
    if skipped:
        sys.stderr.write(f"skipped {len(skipped)} in all\n")


def print_notes(notes: Sequence[str]) -> None:
    """Print each assumption as a line ``note: ...`` on stderr, invisible characters escaped."""
    sys.stderr.writelines(f"{one_line(f'note: {note}')}\n" for note in notes)


def write_judgement(judgement: PrintableJudgement, wanted: OutputOptions) -> int:
    """Write a judgement in the form ``wanted.shown`` to ``wanted.output``, and return the exit code.

    A table on a terminal is coloured. The exit code is 1 if a verdict is ``fail`` and `wanted` has
    ``fail_on_regression``, else 0. Errors are those of `write_output`.
    """
    styled = wanted.shown == "table" and wanted.output is None and sys.stdout.isatty()
    write: Mapping[str, Callable[[], str | bytes]] = {
        "json": judgement.json,
        "xml": judgement.xml,
        "table": lambda: as_plain(judgement.lines(), terminal=styled),
        "markdown": lambda: as_markdown(judgement.lines()),
        "junit": lambda: as_junit(judgement.lines()),
    }
    write_output(write[wanted.shown](), wanted.output, styled=styled)
    return 1 if wanted.fail_on_regression and judgement.fails else 0


def form_of(
    requested: Form | None,
    output: Path | None,
    forms: Sequence[Form],
    *,
    as_json: bool = False,
    inputs: Iterable[Path] = (),
) -> Form:
    """Return the output form: `requested`, else the first of `forms` that has the suffix of the output file.

    `forms` are the forms of the command; the first is the default, without an output file or with a
    suffix that is not in `FORMS_BY_SUFFIX`. With `as_json` it is "json"; InputError if another form is
    `requested`. InputError if the forms of the suffix do not include `requested` (if None: include none
    of `forms`), the directory of `output` does not exist, or `output` is one of `inputs`, or inside one.
    """
    if as_json and requested not in {None, "json"}:
        raise InputError(f"--json contradicts --format {requested}")
    name = "json" if as_json else requested
    wanted = [form for form in forms if name in {None, form}]
    if output is None:
        return wanted[0]
    _require_directory(output)
    refuse_input(output, inputs)
    suffix_forms = FORMS_BY_SUFFIX.get(output.suffix.lower(), wanted)
    for form in wanted:
        if form in suffix_forms:
            return form
    suffixes = [suffix for suffix, written in FORMS_BY_SUFFIX.items() if set(wanted).intersection(written)]
    what = f"--format {name} does not write" if name else "no --format writes"
    raise InputError(f"{what} a {output.suffix} file; expected {', '.join(suffixes)}", file=output)


def require_outputs(outputs: Iterable[Path | None], inputs: Collection[Path] = ()) -> None:
    """InputError if the directory of an output is missing, or if two outputs are one file.

    InputError, too, if an output is one of `inputs`, files or directories, or inside one. None is
    ignored.
    """
    files = set[Path]()
    for output in filter(None, outputs):
        _require_directory(output)
        if output.is_dir():
            raise InputError("is a directory; expected a file", file=output)
        refuse_input(output, inputs)
        file = output.resolve()
        if file in files and _is_regular(file):
            raise InputError("is named for two outputs; expected a file for each", file=output)
        files.add(file)


def refuse_input(output: Path, inputs: Iterable[Path]) -> None:
    """InputError if `output` is one of `inputs`, files or directories, or inside one; devices are allowed."""
    file = output.resolve()
    for source in inputs:
        if source.resolve() in {file, *file.parents} and (file.is_dir() or _is_regular(file)):
            where = "inside the input" if source.is_dir() else "the input"
            raise InputError(f"is {where} {source}; expected another file for the output", file=output)


def _is_regular(file: Path) -> bool:
    # devices and pipes may be named several times
    return file.is_file() or not file.exists()


def _require_directory(output: Path) -> None:
    if not output.parent.is_dir():
        raise InputError("no such directory", file=output.parent)


def write_output(content: bytes | str, output: Path | None, *, styled: bool = False) -> None:
    """Write `content` to the file `output` atomically, or to standard output if that is None.

    A link stays, an existing file keeps its permissions, and a device or a pipe is written to. Text is
    written in UTF-8; its control and invisible characters, except line feeds, are escaped unless it is
    `styled` with colours for a terminal. InputError if the directory of `output` does not exist, OSError
    if writing fails.
    """
    if isinstance(content, str):
        content = (content if styled else escape_invisible(content)).encode()
    if output is None:
        with name_write_errors("standard output"):
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
        return
    _require_directory(output)
    if output.exists() and not output.is_file():
        # a device, a pipe, or a directory, which is an error
        with name_write_errors(output):
            output.write_bytes(content)
    else:
        file = output.resolve()
        _require_directory(file)
        with replacing(file) as path:
            path.write_bytes(content)
            if file.exists():
                shutil.copymode(file, path)


def import_sources(
    kind: str,
    sources: list[Path],
    directory: Path,
    *,
    keep_going: bool,
    as_json: bool,
    options: Mapping[str, Any],
) -> int:
    """Read `sources`, write their tables to `directory`, print a summary, and return the exit code 0.

    `kind` is the format of all sources; it decides the family, or for ``tables``, which every family has,
    the first source does. `options` are the given family-specific options. The summary has the numbers of
    rows by name, the number ``skipped``, and the directory, in a line or, `as_json`, an object. With
    `keep_going`, invalid data is skipped and reported on stderr. InputError for an unknown format, a
    missing source, a source whose tables would be replaced, an option that does not apply to the family,
    and, without `keep_going`, at tables given twice and the first invalid data; then no empty directory is
    left.
    """
    importing = _importing_family(kind, sources[0])
    refuse_other_options(options, importing, sources[0])
    for number, source in enumerate(sources):
        is_repeated = source.resolve() in {earlier.resolve() for earlier in sources[:number]}
        if kind == TABLES and is_repeated and not keep_going:
            raise InputError("is given twice; expected each source of tables once", file=source)
        if _tables_at(source) & _tables_at(directory):
            problem = f"is the input {source}; expected another directory for the tables"
            raise InputError(problem, file=directory)
    # an error at once, not after reading
    import pyarrow as pa  # noqa: F401 - tables are Parquet

    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    try:
        counts = importing.read(kind, sources, directory, keep_going=keep_going, **options)
    except BaseException:
        with suppress(OSError):
            for place in missing:
                # fails if anything was written
                place.rmdir()
        raise
    print_skipped(counts.skipped)
    print_notes(counts.notes)
    numbers = {**counts.rows, "skipped": len(counts.skipped)}
    summary = ", ".join(f"{count} {name}" for name, count in numbers.items())
    answer = json.dumps(numbers | {"directory": str(directory)}) if as_json else f"{summary} -> {directory}"
    sys.stdout.write(answer + "\n")
    return 0


def _tables_at(place: Path) -> set[Path]:
    return {path.resolve() for path in (place, *place.glob("*.parquet"))}


def _importing_family(kind: str, source: Path) -> Importing:
    """Return the part of the family whose format a source has, else that of the first family."""
    importing = [plugin.importing for plugin in all_plugins() if plugin.importing is not None]
    formats = [family.formats() for family in importing]
    names = dict.fromkeys(name for family_formats in formats for name in family_formats)
    if kind not in names:
        raise InputError(f'format "{kind}" {unknown_message(kind, names)}')
    for family, family_formats in zip(importing[1:], formats[1:], strict=True):
        # every family has tables of its own
        if family_formats[kind].matches_path(source) if kind == TABLES else kind in family_formats:
            return family
    return importing[0]
