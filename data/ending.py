"""How a command or a stage ends that cannot go on: one line on stderr, and an exit code."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path
from uuid import uuid4

from data.errors import InputError, ModelError
from data.tables.files import write_text

#: Exit codes: the input or its use is wrong, and what nobody foresaw (EX_SOFTWARE of sysexits.h).
BAD_INPUT, UNEXPECTED = 2, 70
#: Characters of a message that are told.
_MOST = 300


def end(error: Exception, prefix: str = "") -> int:
    """Say on stderr in one line why there is no result.

    Parameters
    ----------
    error : Exception
        An `InputError`, a `ModelError` or an `OSError` tells what to do about the input or the model. Any
        other is a mistake of ours: its trace goes into a file that the line names.
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
        told, code = f"{error.filename or 'a file'}: {error.strerror or error}", BAD_INPUT
    else:
        told, code = f"unexpected {summary(error)}; {_kept(error)}", UNEXPECTED
    sys.stderr.write(_writable(f"{prefix}{' '.join(told.split())}\n"))
    return code


def summary(error: Exception) -> str:
    """Return the type and the message of an error in one line, cut where it is long."""
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."


def _kept(error: Exception) -> str:
    """Write the trace into the system's directory of temporary files, and say where it is."""
    trace = _writable("".join(traceback.format_exception(error)))
    try:
        path = Path(tempfile.gettempdir()) / f"perfjudge-{uuid4().hex}.txt"
        write_text(path, trace)
    except OSError as exc:
        return f"the trace could not be written ({exc.strerror or exc})"
    return f"the trace is in {path}"


def _writable(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()
