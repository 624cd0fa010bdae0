"""What ``perfjudge judge`` does with matrices: read, judge, print."""

from __future__ import annotations

from pathlib import Path

from data.errors import InputError
from serving import matrices_judge, matrices_source
from serving.answering import Told, Wanted, give, tell_skipped
from serving.matrices_model import load


def judge_matrices(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    """Judge all pairs of matrices of `source`, and return the exit code.

    Raises
    ------
    InputError
        If the source cannot be read, it has too little in common with what the model knows, or there is no
        such model.
    """
    served = load(uri)
    reading = matrices_source.read(source, keep_going=keep_going)
    tell_skipped(reading.skipped)
    try:
        found = matrices_judge.judge(reading.tables, served)
    except InputError as exc:
        raise exc.within(source) from exc
    return give(_told(found), wanted)


def _told(found: matrices_judge.Judged) -> Told:
    return Told(
        found.count("fail"),
        lambda: matrices_judge.lines(found),
        lambda: matrices_judge.as_json(found),
        lambda: matrices_judge.as_xml(found),
    )
