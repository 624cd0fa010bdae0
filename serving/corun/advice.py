"""What the report tells those who act on it: which predictions to use, whom to keep apart, what to leave."""

from __future__ import annotations

from collections.abc import Iterator

from serving.corun.evaluated import EvaluatedCoruns
from serving.corun.placement_check import Check
from serving.pages.charts import percent

#: What tasks are held out for, in words.
_UNSEEN = {
    "random": "pairs whose other direction was measured",
    "pairs": "pairs that never ran together",
    "pairs-on-machine": "pairs that never ran together on that machine",
    "tasks": "tasks that never ran beside others",
    "machines": "machines on which nothing was measured",
}
#: Intervals that hold so much less than they are meant to are too narrow.
_SHORT = 0.05


def advice(given: EvaluatedCoruns, checked: Check | None) -> Iterator[str]:
    """Yield sentences for the person who must act."""
    metrics = given.metrics
    own = {name: split.entries[metrics.champion] for name, split in metrics.splits.items()}
    worth = {name: entry for name, entry in own.items() if (entry.r2.pooled or 0) > 0}
    useless = [_UNSEEN.get(name, name) for name in own if name not in worth]
    covered = own[metrics.main].coverage.pooled or 0.0
    held = (
        f"{'Take' if covered >= metrics.confidence - _SHORT else 'Do not take'} its intervals at their word: "
        f"{percent(covered)} held, {percent(metrics.confidence, 0)} were meant to."
    )
    if metrics.main in worth:
        yield (
            f"Ask the static model about {_UNSEEN.get(metrics.main, metrics.main)}: "
            f"{percent(own[metrics.main].within_tolerance.pooled)} of its answers come within "
            f"{percent(metrics.tolerance, 0)}. {held}"
        )
    if useless:
        yield (
            f"Do not rely on it for {' or '.join(useless)}: there it explains nothing (R² is not above "
            f"0), and the mean impact is as good a guess."
        )
    if given.impacts.notna().any(axis=None):
        yield _apart(given)
    if checked:
        yield _placed(checked, metrics.repeatability.solo_spread)
    yield _noise(metrics.repeatability.mape, own[metrics.main].mape.pooled)


def _apart(given: EvaluatedCoruns) -> str:
    task, other = given.strongest
    slower = percent(float(given.impacts.loc[task, other]) - 1, 0)
    typical = percent(float(given.impacts.stack().median()) - 1)
    return f"Keep {task} away from {other}, which makes it {slower} slower; the median pair costs {typical}."


def _placed(checked: Check, noise: float | None) -> str:
    """Say whether placing by predictions pays, beside how much a task differs from itself."""
    saved = f"Placing all tasks by predictions saves {percent(checked.saving)} of run time"
    if noise is not None and checked.saving <= noise:
        return (
            f"{saved}, no more than solo runs of one task differ ({percent(noise)}): on such tasks it "
            f"hardly pays."
        )
    return f"{saved}, of {percent(checked.possible)} that could be saved: let `perfjudge corun place` do it."


def _noise(repeats: float | None, error: float | None) -> str:
    if repeats is None or error is None:
        return "Measure some co-runs twice: without that nobody knows how much of the error is noise."
    if error <= repeats:
        return (
            f"Measure longer or on a quieter machine before you look for a better model: its mean error "
            f"({percent(error)}) is no larger than that of a second measurement ({percent(repeats)})."
        )
    return (
        f"A better model can still be found: a second measurement comes nearer ({percent(repeats)} mean "
        f"error) than the model ({percent(error)})."
    )
