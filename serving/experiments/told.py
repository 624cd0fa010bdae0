"""Numbers, knobs and cases as both the text and the page write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from serving.reports.charts import counted, percent
from training.evaluation.paired_bootstrap import Paired, ScoreChange, Statement
from training.registry.experiments import FamilyDifference, ValueChange

#: Of a digest.
_DIGITS = 12


def value(given: Any) -> str:
    """Write a knob or a count; a digest is cut."""
    if given is None:
        return "\N{EN DASH}"
    if isinstance(given, list):
        return ", ".join(map(str, given))
    return f"{given:,}" if isinstance(given, int) and not isinstance(given, bool) else str(given)


def cut(change: ValueChange) -> ValueChange:
    """Return a change as it is shown: digests by their beginning."""
    if change.name != "digest":
        return change
    return ValueChange(change.name, str(change.before or "")[:_DIGITS], str(change.after or "")[:_DIGITS])


def score(change: ScoreChange, number: float) -> str:
    """Write a score: shares in percent, balanced accuracy as a number."""
    return f"{number:.3f}" if not change.lower_is_better else percent(number)


def gap(change: ScoreChange) -> str:
    """Write what a score grew by, with its interval."""
    found = change.difference
    if not change.lower_is_better:
        observed, low, high = (f"{one:+.3f}" for one in (found.observed, found.low, found.high))
    else:
        observed, low, high = (f"{100 * one:+.1f}" for one in (found.observed, found.low, found.high))
        high += " points"
    return f"{observed} ({low} to {high})".replace("-", "\N{MINUS SIGN}")


def statement(said: Statement) -> str:
    """Write what was said of a case, with what it came from."""
    if said.value is None:
        return said.verdict
    if said.threshold is None:
        return f"{said.verdict}: {said.value:.4g}"
    return f"{said.verdict}: {said.value:.3f} (from {said.threshold:.3f})"


def named(best: Paired) -> str:
    """Say which entries are compared, and on how many cases."""
    who = best.after if best.before == best.after else f"{best.before} \N{RIGHTWARDS ARROW} {best.after}"
    return f"{best.what}: {who}, {counted(best.common, 'common case')}"


def flipped(best: Paired) -> str:
    """Say how many verdicts flipped, and which way."""
    righted = sum(flip.righted for flip in best.flips)
    wronged = len(best.flips) - righted
    if not best.flips:
        return "no verdict flipped"
    return f"{counted(len(best.flips), 'verdict')} flipped: {righted} became right, {wronged} wrong"


def unchanged(one: FamilyDifference) -> Iterator[str]:
    """Yield what is the same in both, in words."""
    if not one.data:
        yield "the same data"
    same = [best for best in one.champions if best.same]
    if same and len(same) == len(one.champions):
        yield "every verdict of the champion"
    alike = sum(entry.same for entry in one.entries)
    if alike:
        yield f"{alike} of {counted(len(one.entries), 'entry', 'entries')}"
