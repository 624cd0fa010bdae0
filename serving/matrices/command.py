"""What ``perfjudge judge`` does with matrices: read, judge, print."""

from __future__ import annotations

from pathlib import Path

from data.errors import InputError
from serving.answering import Told, Wanted, give, tell_skipped
from serving.matrices import source as matrices_source
from serving.matrices.json import as_json
from serving.matrices.judge import judge
from serving.matrices.model import load
from serving.matrices.text import lines
from serving.matrices.xml import as_xml


def judge_matrices(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    """Judge all pairs of matrices of `source`, and return the exit code.

    Raises
    ------
    InputError
        If the source cannot be read, has too little in common with what the model knows, or there is no such
        model.
    """
    reading = matrices_source.read(source, keep_going=keep_going)
    tell_skipped(reading.skipped)
    served = load(uri)
    try:
        found = judge(reading.tables, served)
    except InputError as exc:
        raise exc.within(source) from exc
    told = Told(found.count("fail"), lambda: lines(found), lambda: as_json(found), lambda: as_xml(found))
    return give(told, wanted)
