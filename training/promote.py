"""Stage ``promote``: the best model is registered, and becomes champion unless it is found worse."""

from __future__ import annotations

import sys
from typing import Any

from training.digest import digest_of
from training.family import Family, run
from training.registry import CHALLENGER, CHAMPION, present, version_of
from training.written import written


def promote(family: Family) -> None:
    """Bring the registry up to date with what DVC holds, then print the opponents' table."""
    metrics = written(family.reports / "metrics.json", "evaluate")
    evidence = evidence_of(family, metrics)
    outcome = standing(family.section.promote.name, evidence)
    if outcome is None:
        from training.contest import contest

        outcome = contest(family, metrics, evidence)
    _show(metrics, outcome)


def evidence_of(family: Family, metrics: dict[str, Any]) -> str:
    """Return the digest of what speaks for the candidate: its metrics, and its card."""
    return digest_of(family.reports / "metrics.json", family.models / metrics["champion"] / "card.json")


def standing(name: str, evidence: str) -> str | None:
    """Say who is champion if this evidence was judged before, or None if there is something to do.

    It takes milliseconds, because the stage runs with every ``dvc repro``.
    """
    champion = version_of(name, CHAMPION)
    if champion is None or not present(champion):
        return None
    if champion.tags.get("evidence") == evidence:
        return f"{name} v{champion.version} ({champion.tags['model']}) stands: {champion.tags['reason']}"
    challenger = version_of(name, CHALLENGER)
    if challenger is None or not present(challenger):
        return None
    judged = (challenger.tags.get("evidence"), challenger.tags.get("judged_against"))
    if judged == (evidence, champion.version):
        return f"{name} v{champion.version} ({champion.tags['model']}) stands: {challenger.tags['reason']}"
    return None


def _show(metrics: dict[str, Any], outcome: str) -> None:
    from rich.console import Console

    from training.opponents import opponents

    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(opponents(metrics))
    console.print(outcome, highlight=False, markup=False)


if __name__ == "__main__":
    run(promote)
