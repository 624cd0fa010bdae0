"""How a command or a stage ends that cannot go on: one line on stderr, and an exit code."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path
from uuid import uuid4

from data.errors import InputError, ModelError, one_line, visible
from data.tables.files import write_text

#: Exit codes: the input or its use is wrong, and what nobody foresaw (EX_SOFTWARE of sysexits.h).
BAD_INPUT, UNEXPECTED = 2, 70
#: How Python encodes bytes of names that are not UTF-8.
_NOT_UTF8 = "surrogates not allowed"
#: Packages that only some users need, and the extra of perfjudge that installs them.
EXTRAS = {"dask": "cluster", "distributed": "cluster", "psycopg": "postgres", "boto3": "s3"}
#: Characters of a message that are told.
_MOST = 300


def end(error: Exception, prefix: str = "") -> int:
    """Say on stderr in one line why there is no result.

    Parameters
    ----------
    error : Exception
        An `InputError`, a `ModelError`, an `OSError` or a name that is not UTF-8 tells what to do about the
        input or the model. Any other is a mistake of ours: its trace goes into a file that the line names.
    prefix : str
        What the line begins with.

    Returns
    -------
    int
        The exit code.
    """
    if isinstance(error, InputError | ModelError):
        told, code = str(error), BAD_INPUT
    elif isinstance(error, OSError):
        named = "" if error.filename is None else f"{error.filename}: "
        told, code = f"{named}{error.strerror or error}", BAD_INPUT
    elif isinstance(error, UnicodeEncodeError) and error.reason == _NOT_UTF8:
        # a name of a file: all other text is decoded strictly
        told, code = f"{error.object}: is not UTF-8; a file of this name must be renamed", BAD_INPUT
    elif isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        told, code = missing_extra(error.name), BAD_INPUT
    else:
        told, code = f"unexpected {summary(error)}; {_kept(error)}", UNEXPECTED
    sys.stderr.write(f"{one_line(f'{prefix}{told}')}\n")
    return code


def missing_extra(package: str) -> str:
    """Return which extra of perfjudge installs a package of `EXTRAS`."""
    extra = EXTRAS[package]
    return f"the package {package} is not installed; install perfjudge[{extra}] (uv sync --extra {extra})"


def summary(error: Exception) -> str:
    """Return the type and the message of an error in one line, cut where it is long."""
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."


def _kept(error: Exception) -> str:
    """Write the trace into the system's directory of temporary files, and say where it is."""
    trace = visible("".join(traceback.format_exception(error)))
    try:
        path = Path(tempfile.gettempdir()) / f"perfjudge-{uuid4().hex}.txt"
        write_text(path, trace)
    except OSError as exc:
        return f"the trace could not be written ({exc.strerror or exc})"
    return f"the trace is in {path}"
