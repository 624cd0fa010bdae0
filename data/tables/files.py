"""Write files atomically, read them with errors of one line, and sort their names."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from data.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame
    from pydantic import TypeAdapter


def digest_of(*paths: Path) -> str:
    """Return the SHA-256 of the concatenated files, in hexadecimal; InputError if a file cannot be read."""
    digest = hashlib.sha256()
    for path in paths:
        with naming_unreadable(path), path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


@contextmanager
def naming_unreadable(path: Path) -> Iterator[None]:
    """Replace an OSError that is raised inside the ``with`` block by an InputError that names `path`."""
    try:
        yield
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc


def read_bytes(path: Path, limit: int, expected: str) -> bytes:
    """Return the content of a file; InputError if it cannot be read, has over `limit` bytes, or is blank.

    `expected` is a noun for its content in the message.
    """
    with naming_unreadable(path):
        size = path.stat().st_size
        if size > limit:
            raise InputError(f"has {size >> 20} MB; up to {limit >> 20} MB are read at once", file=path)
        content = path.read_bytes()
    if not content.strip():
        raise InputError(f"is empty; expected {expected}", file=path)
    return content


T = TypeVar("T")
Compression = Literal["snappy", "zstd"]
#: Maximum size of JSON in bytes; larger data should be tables or XML.
MAX_BYTES = 256 * 2**20
#: Maximum size of YAML in MiB; people write it by hand.
MAX_YAML = 1
#: Suffix of temporary directories for files that are being written.
PART = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces `path` if the block succeeds, and is removed otherwise.

    The temporary path is below the directory of `path`, which is created if missing. An OSError about the
    temporary path or without a path names `path` instead. OSError, too, if the block creates no file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with name_write_errors(path, path.parent):
        temporary = TemporaryDirectory(PART, f".{path.name}.", path.parent, ignore_cleanup_errors=True)
    with temporary as folder, name_write_errors(path, Path(folder)):
        target = Path(folder, path.name)
        yield target
        target.replace(path)


@contextmanager
def name_write_errors(name: Path | str, temporary: Path | None = None) -> Iterator[None]:
    """Let an OSError of the block name `name` if it names no file or one in `temporary`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        file = "" if exc.filename is None else str(exc.filename)
        if file and not (temporary is not None and file.startswith(str(temporary))):
            raise
        raise OSError(exc.errno, exc.strerror or str(exc), str(name)) from exc


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` atomically; UnicodeEncodeError if it has a lone surrogate."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write `content` to `path` atomically as indented JSON with sorted keys; ValueError for NaN."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_tables(
    directory: Path, tables: Mapping[str, DataFrame], compression: Compression = "snappy"
) -> None:
    """Write each table, without its index, to ``<name>.parquet`` in `directory`, each file atomically."""
    for name, table in tables.items():
        with replacing(directory / f"{name}.parquet") as path:
            table.to_parquet(path, index=False, compression=compression)


def read_json(path: Path, model: type[T]) -> T:
    """Return the content of a JSON file as `model`, which pydantic validates; errors: see `content_of`."""
    from pydantic import ValidationError

    from data.tables.documents import validation_message

    try:
        # mypy does not know that every type is hashable
        return _adapter_of(model).validate_python(content_of(path))  # type: ignore[arg-type]
    except ValidationError as exc:
        raise InputError(validation_message(exc), file=path) from exc


@cache
def _adapter_of(model: type[T]) -> TypeAdapter[T]:
    # building one takes milliseconds
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def content_of(path: Path) -> object:
    """Return the content of a JSON file of at most `MAX_BYTES` (256 MiB), any JSON value.

    The file may be in UTF-8, UTF-16 or UTF-32. InputError if it cannot be read, is empty or too large, is not
    JSON (see `json_content`), is nested too deeply, or has a key twice in an object.
    """
    source = read_bytes(path, MAX_BYTES, "JSON")
    try:
        return json_content(source.decode(json.detect_encoding(source)))
    except json.JSONDecodeError as exc:
        raise InputError(f"is not JSON ({exc.msg}, column {exc.colno})", file=path, line=exc.lineno) from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"is not JSON (byte {exc.start} is not {exc.encoding})", file=path) from exc
    except ValueError as exc:
        raise InputError(f"is not JSON ({exc})", file=path, line=line_of_constant(source, exc)) from exc
    except RecursionError as exc:
        raise InputError("is nested too deeply", file=path) from exc
    except InputError as exc:
        raise exc.with_file(path) from exc


#: Floats that Python reads although JSON has no such numbers, and strings, in which they are text.
_CONSTANTS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|NaN|-?Infinity', re.DOTALL)


def line_of_constant(source: bytes, problem: Exception) -> int | None:
    """Return the line of the number, such as NaN, for which `json_content` raises `problem`; else None."""
    name, text = str(problem).partition(" ")[0], source.decode(json.detect_encoding(source), "replace")
    starts = (match.start() for match in _CONSTANTS.finditer(text) if match[0] == name)
    return next((text.count("\n", 0, start) + 1 for start in starts), None)


def json_content(text: str) -> Any:
    """Return the value of a JSON text; strict (RFC 8259): no ``NaN``, no ``Infinity``, no repeated keys.

    A number such as 1e999 becomes infinite. InputError for a repeated key, with its place and line.
    RecursionError if the text is nested too deeply, ValueError if it is not JSON for any other reason, or an
    integer has too many digits for Python.
    """
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError:
        raise
    except ValueError as exc:
        # Python's message would advise users to change Python's settings
        if "set_int_max_str_digits" in str(exc):
            raise ValueError(f"a number has more than {sys.get_int_max_str_digits()} digits") from exc
        raise
    # imported here because measured programs import this module without site-packages
    from data.tables.documents import require_unique_keys

    require_unique_keys(text.encode("utf-8", "surrogatepass"))
    return content


def yaml_content(path: Path, loader: type[Any] | None = None) -> Any:
    """Return the content of a YAML file of at most 1 MiB (`MAX_YAML`); None if it has no content.

    `loader` is `SafeLoader` (the default) or `TextLoader` of `data.tables.documents`; with the second, all
    values are text, also numbers and ``null``. InputError if the file cannot be read, is too large, is not
    YAML in UTF-8, or a mapping has a key twice.
    """
    import yaml

    from data.tables.documents import SafeLoader

    with naming_unreadable(path), path.open("rb") as file:
        source = file.read((MAX_YAML << 20) + 1)
    if len(source) > MAX_YAML << 20:
        raise InputError(f"is larger than {MAX_YAML} MiB", file=path)
    try:
        return yaml.load(source.decode("utf-8-sig"), loader or SafeLoader)  # noqa: S506 - neither loader creates objects
    except (ValueError, RecursionError, yaml.YAMLError) as exc:
        raise InputError(f"is not YAML ({exc})", file=path) from exc
    except InputError as exc:
        raise exc.with_file(path) from exc


_PARTS = re.compile(r"[0-9]+|[^0-9]+")
#: Parts of names of pre-releases, which sort before the release.
_BEFORE = re.compile(r"[-._~+]*(rc|alpha|beta|pre|dev)[-._]*", re.IGNORECASE)
#: Number of first characters of a name that are compared.
_LONGEST = 1_000
_EARLIER, _END, _LETTERS, _NUMBER = range(4)


def natural_key(name: str) -> tuple[tuple[int, Any], ...]:
    """Return a key that sorts versions or names of files naturally: 4.9 < 4.10-rc1 < 4.10 < 4.10-2.

    Numbers are compared by value (01 equals 1), the text between them by code point; text comes before a
    number. The name that ends first comes first, unless the other goes on with rc, alpha, beta, pre or dev
    (in any case, with or without separators), which comes before any other text, too. Only the first 1000
    characters count.
    """
    parts = [
        (_NUMBER, int(text))
        if text[0] in "0123456789"
        else (_EARLIER if _BEFORE.fullmatch(text) else _LETTERS, text)
        for text in _PARTS.findall(name[:_LONGEST])
    ]
    return (*parts, (_END, ""))


def in_natural_order(paths: Iterable[Path]) -> list[Path]:
    """Return paths sorted by the `natural_key` of their names, equal ones by code point."""
    return sorted(paths, key=lambda path: (natural_key(path.name), path.name))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")
