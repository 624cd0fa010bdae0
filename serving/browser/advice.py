"""What the first page of a server tells those who act on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from serving.pages.apart import listed
from serving.pages.charts import counted
from serving.pages.verdict_lines import VerdictLine


def advice(troubled: Sequence[str], far: Mapping[str, str], verdicts: Sequence[VerdictLine]) -> Iterator[str]:
    """Yield sentences for the person who must act.

    Parameters
    ----------
    troubled : sequence of str
        Models that do not answer as they should.
    far : mapping of str to str
        By model, the feature that lies far off what it was trained on.
    verdicts : sequence of VerdictLine
        The last ones.
    """
    if troubled:
        yield f"Mend {listed(troubled)} first: requests to it get no answer, or one of an older version."
    for model, feature in far.items():
        yield (
            f"Do not rely on {model} for what is asked now: {feature} lies far off what it was trained "
            f"on. Label some of it and train anew, or find out why it changed."
        )
    fails, unsure = (sum(one.verdict == word for one in verdicts) for word in ("fail", "unsure"))
    if fails:
        yield f"Look at {counted(fails, 'fail')} among the recent verdicts: each says what speaks for it."
    if unsure:
        yield (
            f"Look at {counted(unsure, 'unsure verdict')} yourself and label them: there the "
            f"model learns most."
        )
    if not (troubled or far):
        yield "Nothing is wrong with the models: the next thing is to ask them, or to give them more labels."
    yield (
        "Before you change a threshold or a model, read the report of its family: it says what each "
        "choice costs."
    )
