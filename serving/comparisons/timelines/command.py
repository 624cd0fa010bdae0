"""What ``perfjudge timelines`` does: make the pages, and say which."""

from __future__ import annotations

import json
from dataclasses import asdict

from data.errors import InputError
from data.measure.session import Screen
from serving.answering import tell_notes, tell_skipped, write
from serving.asking import JudgeError
from serving.comparisons.timelines.generate import TimelineWish, Written, generate


def give_timelines(wish: TimelineWish, *, as_json: bool) -> int:
    """Write the pages, say what was written, and return the exit code.

    Raises
    ------
    InputError
        As of `serving.comparisons.timelines.generate.generate`, or if a server does not answer.
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
