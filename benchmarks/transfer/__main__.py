"""The table of transfer: what was learned on some, asked about others.

Run it with ``uv run python -m benchmarks.transfer ../shared/data`` (some quarter of an hour); it writes
``docs/results/transfer.md``. ``--only causes`` prints the rows of one question, and writes nothing.
A question is a module here, whose ``rows`` takes the folder of public data and a seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks.table import SEED, Table, machine
from benchmarks.transfer.row import TransferRow
from data.parallel import watched

COMMAND = "uv run python -m benchmarks.transfer ../shared/data"
QUESTIONS = ("causes", "devices", "campaigns", "cpus")
NOTES = (
    "What is held out was never seen in training, nor while anything was chosen or tuned.",
    "The plain judge learned from the same rows, on the same folds.",
    "Spread: standard deviation over the folds.",
)


@dataclass(frozen=True)
class Asked:
    """A question, the public data, and the seed of all that is drawn."""

    question: str
    shared: Path
    seed: int


@dataclass(frozen=True)
class Answered:
    """The rows of a question up to where it failed, and by what it did; empty if it did not."""

    question: str
    rows: tuple[TransferRow, ...]
    failure: str = ""


def answered(asked: Asked) -> Answered:
    """Return the rows of a question, and tell each on stderr as it comes."""
    rows: list[TransferRow] = []
    try:
        for row in _rows(asked):
            sys.stderr.write(f"{' | '.join(cells(row))}\n")
            rows.append(row)
    except Exception as failure:  # noqa: BLE001 - the others' rows took minutes, too
        return Answered(asked.question, tuple(rows), f"{type(failure).__name__}: {failure}")
    return Answered(asked.question, tuple(rows))


def _rows(asked: Asked) -> Iterator[TransferRow]:
    found: Iterator[TransferRow] = import_module(_module(asked.question)).rows(asked.shared, asked.seed)
    return found


def _module(question: str) -> str:
    return f"benchmarks.transfer.{question}"


def cells(row: TransferRow) -> list[str]:
    """Return a row as text."""
    return [f"{value:.4f}" if isinstance(value, float) else str(value) for value in astuple(row)]


def table(found: Sequence[Answered], seed: int) -> Table:
    """Return all rows, in the order of the questions."""
    columns = dict.fromkeys((field.name.replace("_", " ") for field in fields(TransferRow)), "")
    rows = [cells(row) for one in found for row in one.rows]
    return Table(
        "Trained on some, asked about others", COMMAND, columns, rows, [f"Seed {seed}.", *NOTES, machine()]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print, and write the table if every question was answered; return the exit code."""
    there = [name for name in QUESTIONS if find_spec(_module(name))]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path, help="where the public data sets lie")
    parser.add_argument("--only", choices=there, nargs="+", default=there)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    tasks = [Asked(name, options.shared, options.seed) for name in options.only]
    found = [*watched(map(answered, tasks), len(tasks), "transfer")]
    failed = [one for one in found if one.failure]
    whole = table(found, options.seed)
    if failed or options.only != there:
        print(whole.markdown())
    else:
        whole.publish("transfer")
    for one in failed:
        sys.stderr.write(f"{one.question} failed after {len(one.rows)} rows: {one.failure}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
