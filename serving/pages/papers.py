"""The papers that reports speak of: a short title in the text, and one list of sources at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from serving.pages.charts import plain


@dataclass(frozen=True)
class Paper:
    """A paper: what the text calls it, and by what a reader finds it."""

    short: str
    cited: str


THESIS = Paper(
    "the scheduler thesis",
    "J. Vozár, Performance Testing of Linux Kernel Scheduler. Bachelor's thesis, Brno University of "
    "Technology, Faculty of Information Technology, 2019",
)
ENGINE = Paper(
    "the analysis engine paper",
    "Experience in Building a Comparative Performance Analysis Engine for a Commercial System; "
    "of a data warehouse, at Teradata",
)
CORUN = Paper(
    "the co-run paper",
    "S. Ren, L. He, J. Li, Z. Chen, P. Jiang and C.-T. Li, Contention-aware prediction for performance "
    "impact of task co-running in multicore computers",
)
QUIHO = Paper(
    "the quiho paper",
    "I. Jimenez and others, quiho: Automated Performance Regression Testing Using Inferred Resource "
    "Utilization Profiles. University of California, Santa Cruz",
)
#: As files of stages number them.
_NUMBERED = {"seed 000": THESIS, "seed 001": ENGINE, "seed 002": CORUN, "seed 003": QUIHO}
_EXPONENT = re.compile(r"(?<![\w.])([-\u2212]?\d+(?:\.\d+)?e[+-]?\d+)(?!\w)")


def worded(text: str) -> str:
    """Return what a file says as a page says it: papers by their short titles, numbers without exponents."""
    for number, paper in _NUMBERED.items():
        text = text.replace(number, paper.short)
    text = text.replace("the seed's", "the paper's").replace("The seed's", "The paper's")
    return _EXPONENT.sub(lambda found: plain(float(found[0].replace("\u2212", "-"))), text)
