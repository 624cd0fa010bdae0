"""How training grows with its data in every family.

Run it with ``uv run python -m benchmarks.growth`` where the pipeline is up to date; it takes some minutes and
writes ``docs/results/growth.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.growth.learning import Learnt
from benchmarks.growth.lessons import LESSONS, NOISE, PAIRS
from benchmarks.table import SEED, Table, busy, load
from data.parallel import watched

COMMAND = "uv run python -m benchmarks.growth"
TIMES = (1, 10, 100)
#: Of n log n between the last two sizes of what has some thousand cases.
LOGARITHMIC = 1.15
#: Why a model's fit grows by more than that.
WHY: dict[str, str] = {}


@dataclass(frozen=True)
class Growth:
    """A model at all sizes."""

    name: str
    found: Sequence[Learnt]

    @property
    def exponent(self) -> float:
        """Of the seconds over the cases, between the last two sizes."""
        small, large = self.found[-2:]
        return float(np.log(large.seconds / small.seconds) / np.log(large.cases / small.cases))

    def row(self) -> tuple[object, ...]:
        """Return a row of the table."""
        first, last = self.found[0], self.found[-1]
        return (
            self.name, first.what, f"{first.cases:,} x {first.columns}",
            *(one.seconds for one in self.found), self.exponent,
            *(one.peak for one in self.found), last.data,
        )  # fmt: skip


def measured(name: str, times: int) -> Learnt:
    """Learn in a process of its own, whose memory is its own, too."""
    command = [sys.executable, "-m", "benchmarks.growth.learning", name, str(times)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Learnt(**json.loads(done.stdout))


def table(growths: Sequence[Growth], before: float) -> Table:
    """Return what was measured."""
    columns = dict.fromkeys(("family", "model", "1x, rows x columns"), "")
    columns |= {f"{times}x, s": ".2f" for times in TIMES} | {"exponent": ".2f"}
    columns |= {f"{times}x, MiB": ".0f" for times in TIMES} | {"of it data, MiB": ".0f"}
    steep = [WHY[one.name] for one in growths if one.exponent > LOGARITHMIC and one.name in WHY]
    return Table(
        "Training, as its data grows",
        COMMAND,
        columns,
        [one.row() for one in growths],
        [*NOTES, *steep, busy(before)],
    )


NOTES = f"""\
1x is what is shipped, of matrices every {PAIRS}th pair. 10x and 100x are copies with noise of {NOISE:.0%}, \
in which operations, test cases, programs and CPU models have names of their own. Seed {SEED}.
The shipped champion is fitted once to all rows as its stage train does; of matrices the search is part of \
it. One thread, in a process of its own; seconds are of the processor.
Exponent: of seconds over rows from 10x to 100x; 1 is linear growth, n log n comes to 1.1 at these sizes.
MiB: the most that was resident until the fit had ended; the last column is what was before it, at 100x.
""".splitlines()


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=LESSONS, nargs="+", default=list(LESSONS), help="writes nothing")
    names, before = parser.parse_args().only, load()
    sizes = [(name, times) for name in names for times in TIMES]
    done = watched((measured(*size) for size in sizes), len(sizes), "growth")
    found = dict(zip(sizes, done, strict=True))
    whole = table([Growth(name, [found[name, times] for times in TIMES]) for name in names], before)
    if names == list(LESSONS):
        whole.publish("growth")
    else:
        print(whole.markdown())


if __name__ == "__main__":
    main()
