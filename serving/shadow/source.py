"""``perfjudge shadow``: champion and challenger judge a file or directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data.errors import InputError
from serving.answering import plugin_for_source, refuse_other_options, rejudge_source
from serving.http.bodies import JSON
from serving.reports.text_tables import text_table
from serving.shadow import figures
from serving.shadow.figures import Contenders, Disagreement, OpinionCounts
from training.registry.champions import CHALLENGER, CHAMPION, version_of

#: Maximum number of disagreements in the text.
TOLD = 20


def judge_by_both(source: Path, options: Mapping[str, Any], *, keep_going: bool, as_json: bool) -> str:
    """Judge a source by champion and challenger, record the agreement, and return it as text or JSON.

    The text lists at most 20 cases with different verdicts; the JSON has the fields of `ShadowFigures`, and
    all such cases in ``disagreements``. Stored agreement of the same versions and source is replaced.
    InputError if the source cannot be judged, an option does not apply to its family, or the champion or
    challenger is missing; ModelError if a model fails.
    """
    plugin = plugin_for_source(source)
    judging = plugin.judging
    endpoint = next((endpoint for endpoint in plugin.endpoints() if endpoint.shadow is not None), None)
    if judging is None or endpoint is None or endpoint.loader is None or endpoint.shadow is None:
        raise InputError("holds nothing that challengers judge", file=source)
    refuse_other_options(options, judging, source)
    name, versions = endpoint.loader.name(), []
    for alias in (CHAMPION, CHALLENGER):
        version = version_of(name, alias)
        if version is None:
            raise InputError(f"{name} has no {alias}; dvc repro makes one of a candidate")
        versions.append(version)
    champion, challenger = versions
    counts, opinions = OpinionCounts(), []
    for version in versions:
        answer = rejudge_source(judging, source, version.uri, "json", keep_going=keep_going, **options)
        opinions.append(endpoint.shadow.opinions_in_answer(JSON, answer))
    counts.compare_opinions(*opinions)
    contenders = Contenders(champion.name, champion.version, challenger.version, str(source))
    figures.record_counts(figures.figures_file(), contenders, counts, replace=True)
    (agreement,) = (
        pair
        for pair in figures.read_report(figures.figures_file()).figures
        if Contenders(pair.name, pair.champion, pair.challenger, pair.source) == contenders
    )
    differences = counts.disagreements
    if as_json:
        return json.dumps(asdict(agreement) | {"disagreements": [asdict(case) for case in differences]})
    old, new = f"v{agreement.champion}", f"v{agreement.challenger}"
    lines = [f"{agreement.name} {old} (champion) and {new} (challenger): {agreement.summary}"]
    if differences:
        rows = map(_table_row, differences[:TOLD])
        lines.append(text_table(("comparison", "of", old, new), rows).rstrip())
    if len(differences) > TOLD:
        lines.append(f"and {len(differences) - TOLD} more (--json)")
    return "\n".join(lines)


def _table_row(case: Disagreement) -> tuple[str, ...]:
    judged = (case.champion, case.champion_probability), (case.challenger, case.challenger_probability)
    texts = (verdict if share is None else f"{verdict} {share:.3f}" for verdict, share in judged)
    return case.case, case.about, *texts
