"""Stage ``promote``: the best model is registered, and becomes champion unless it is found worse."""

from __future__ import annotations

import json
import sys
from typing import Any

from data.errors import InputError
from training.digest import digest_of
from training.family import Family, run
from training.registry import CHALLENGER, CHAMPION, present, version_of


def promote(family: Family) -> None:
    """Bring the registry up to date with what DVC holds, then print the opponents' table."""
    metrics = _metrics(family)
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


def _metrics(family: Family) -> dict[str, Any]:
    path = family.reports / "metrics.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError("cannot be read; run evaluate first", file=path) from exc
    except ValueError as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    return content


def _show(metrics: dict[str, Any], outcome: str) -> None:
    from rich.console import Console

    from training.opponents import opponents

    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(opponents(metrics))
    console.print(outcome, highlight=False, markup=False)


if __name__ == "__main__":
    run(promote)
