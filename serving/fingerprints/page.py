"""Report on fingerprints: the figures of the quiho paper for the present data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from data.fingerprints.params import Fingerprints, Profiling
from data.params import load
from features.fingerprints.matrix import FingerprintTable, zscores
from serving.fingerprints.machine_charts import (
    boxes_chart,
    components_chart,
    correlation_chart,
    series_chart,
    stability_chart,
)
from serving.fingerprints.profile_bars import DifferenceBars, ProfileBars, bars_from_shares, report_advice
from serving.fingerprints.profiled import ProfiledPage
from serving.fingerprints.worst_cases import WorstPredictions
from serving.reports.charts import Chart, percent, with_noun
from serving.reports.evaluation_files import other_data_rows
from serving.reports.rendering import QUIHO, render
from serving.reports.separation import Leaders, differs_from_half, join_names
from training.fingerprints.differences import CLAIMS, Verdict, count_false_positives, profile_difference
from training.fingerprints.importance import seed_shares
from training.fingerprints.profiles import infer_profile, scale_importances

#: Figures of the paper with profiles, by application.
PROFILES = {
    "hpccg": "Figure 5 of the quiho paper",
    **dict.fromkeys(("redis-set", "redis-get", "scikit-learn", "ssca"), "Figure 10 of the quiho paper"),
    **dict.fromkeys(("stream-nadds-add-1", "stream-nadds-add-30"), "Figure 13 of the quiho paper"),
}
#: Applications of section 6.1, shown in figure 9.
SECTION_6_1 = ("hpccg", "redis-set", "redis-get", "scikit-learn", "ssca")
#: Figures of the paper with a difference, by pair.
CHANGES = {
    ("mariadb-innodb-load", "mariadb-memory-load"): "Figure 11 of the quiho paper",
    ("stream-nadds-add-1", "stream-nadds-add-30"): "Figure 13 of the quiho paper",
    ("mariadb-10.3.2-innodb-load", "mariadb-5.5.58-innodb-load"): "Figure 14 of the quiho paper",
}
#: Preferred application of figure 16.
CONTRADICTED = "redis-set"
#: Number of compared pairs without pairs of the paper; number of profiles up to which none is folded.
PAIRS, FEW = 6, 3
#: Display names of the entries of the evaluation.
METHODS = {
    "ensemble": "our mean of four regressions",
    "forest": "random forest",
    "seed": "the paper's boosted trees",
    "median": "constant (training median)",
}
#: Number of rankings in figure 16.
TIMES = 3


def page(root: Path) -> str:
    """Return the report on the fingerprints of the project in the directory `root`, as self-contained HTML.

    InputError if params.yaml or a file of the stages is missing or invalid.
    """
    page_data = ProfiledPage.read(root)
    params, seed = load(Fingerprints, root / "params.yaml").section.profile, page_data.metrics.seed
    profiles = drawn_profiles(page_data)
    return render(
        "fingerprints.html",
        given=page_data,
        summary=trust_summary(page_data),
        profiles=profiles,
        trusted=[bars for bars in profiles if bars.profile.trust.enough],
        refused=[bars for bars in profiles if not bars.profile.trust.enough],
        limits=params.trust,
        significance=params.significance,
        confidence=params.confidence,
        absent=", ".join(name for name in PROFILES if name not in page_data.profiles),
        differences=profile_differences(page_data, params),
        alarms=count_false_positives(page_data.table, list(page_data.profiles), params, seed),
        claims=page_data.claims.to_dict("records"),
        verdicts=[(page_data.claims["verdict"].eq(verdict).sum(), verdict) for verdict in get_args(Verdict)],
        unclaimed=[claim for claim in CLAIMS if claim.text not in set(page_data.claims["claim"])],
        charts=list(machine_figures(page_data.table)),
        contradiction=find_contradiction(page_data.table, seed),
        stability=stability_sentence(page_data.stability),
        stability_figure=stability_chart(page_data.stability),
        accuracy=accuracy_sentence(page_data.accuracy),
        worst=WorstPredictions.from_predictions(
            page_data.predictions, page_data.table.targets.groupby("application")["metric"].first()
        ),
        points=list(report_advice(page_data)),
        transfer=other_data_rows(root, "fingerprints"),
        papers=[QUIHO],
        methods={name: METHODS.get(name, name) for name in page_data.accuracy.columns.drop("application")},
    )


def trust_summary(page_data: ProfiledPage) -> str:
    """Return text with the numbers of trusted profiles, all profiles, machines and their CPU models.

    If no profile is trusted, it says so, with the last two numbers only.
    """
    trusted = sum(profile.trust.enough for profile in page_data.profiles.values())
    machines, cpus = page_data.table.runs["machine"].nunique(), page_data.table.runs["cpu_model"].nunique()
    base = f"{with_noun(machines, 'machine')} of {with_noun(cpus, 'CPU model')}"
    if not trusted:
        return f"Not enough diversity: {base} do not show which resources an application depends on."
    return (
        f"The rankings of {trusted} of {with_noun(len(page_data.profiles), 'profile')} can be trusted. "
        f"The data is from {base} (see Terms)."
    )


def drawn_profiles(page_data: ProfiledPage) -> list[ProfileBars]:
    """Return the bars of all profiles, those of trusted ones first, then by name.

    Those with a figure in the paper are ``shown``, the others folded; all are shown if there are at most
    three.
    """
    profiles, few = page_data.profiles, len(page_data.profiles) <= FEW
    drawn = [
        ProfileBars(f"profile-{place}", profile, PROFILES.get(name, ""), few or name in PROFILES)
        for place, (name, profile) in enumerate(profiles.items(), 1)
    ]
    return sorted(drawn, key=lambda bars: (not bars.profile.trust.enough, bars.profile.application))


def compared_pairs(page_data: ProfiledPage) -> list[tuple[str, str]]:
    """Return the pairs of applications whose profiles are compared; may be empty.

    They are the pairs of the paper's figures of which both applications have profiles. Without such a pair,
    the best predicted trusted application of each kind (the name up to its first colon) is taken; sorted by
    name, each is paired with the next, so that a pair has two kinds; at most the first six pairs.
    """
    of_paper = [pair for pair in CHANGES if set(pair) <= set(page_data.profiles)]
    if of_paper:
        return of_paper
    trusted = [profile for profile in page_data.profiles.values() if profile.trust.enough]
    best: dict[str, str] = {}
    for profile in sorted(trusted, key=lambda profile: (-profile.trust.r2, profile.application)):
        best.setdefault(profile.application.partition(":")[0], profile.application)
    return list(pairwise(sorted(best.values())))[:PAIRS]


def profile_differences(page_data: ProfiledPage, params: Profiling) -> list[DifferenceBars]:
    """Return the difference b - a of the profiles of each pair (a, b) of `compared_pairs`.

    The profiles are learned again; with the `params` of the pipeline they are identical to its profiles.
    """
    chosen, seed = compared_pairs(page_data), page_data.metrics.seed
    names = sorted({name for pair in chosen for name in pair})
    learned = {name: infer_profile(page_data.table.measurements_of(name), params, seed) for name in names}
    differences = [profile_difference(learned[a], learned[b], params, seed) for a, b in chosen]
    return [
        DifferenceBars(f"difference-{place}", difference, CHANGES.get((difference.a, difference.b), ""))
        for place, difference in enumerate(differences, 1)
    ]


def stability_sentence(stability: pd.DataFrame) -> str:
    """Return a text with the number of applications on which our top five is more stable; "" without rows.

    A row with NaN in `stability` (see `stability_chart`) counts as not more stable.
    """
    if stability.empty:
        return ""
    higher = int((stability["ours"] > stability["seed"]).sum())
    means = stability[["seed", "ours"]].mean()
    chance = " That is not significantly more or less than the half expected of equally stable methods."
    if differs_from_half(higher, len(stability)):
        chance = ""
    return (
        f"The top five stressors of our method are more stable than the paper's on {higher} of "
        f"{with_noun(len(stability), 'application')} ({percent(higher / len(stability), 0)}): "
        f"mean overlap (Jaccard) between resamples {means['ours']:.2f} against {means['seed']:.2f}.{chance}"
    )


def accuracy_sentence(accuracy: pd.DataFrame) -> str:
    """Return a text with the number of smallest errors and the median error of each method; "" without rows.

    `accuracy` has ``application`` and a column of median relative errors per method. An application with a
    missing error counts in the medians and in the total, but not for a method.
    """
    if accuracy.empty:
        return ""
    errors = accuracy.drop(columns="application").rename(columns=METHODS)
    complete = errors.dropna()
    best = complete.idxmin(axis="columns").value_counts()
    counts = ", ".join(f"{name} for {number}" for name, number in best.items())
    typical = ", ".join(f"{name} {percent(error)}" for name, error in errors.median().sort_values().items())
    leaders, chance = Leaders.from_scores(-complete) if len(complete) else None, ""
    if leaders and leaders.alike:
        chance = f" The errors of {join_names(leaders.all_names)} do not differ significantly."
    return (
        f"On machines of held-out CPU models, the smallest error is that of {counts} of "
        f"{with_noun(len(accuracy), 'application')}. Median errors over the applications: {typical}.{chance}"
    )


def machine_figures(table: FingerprintTable) -> Iterator[tuple[str, Chart | None, str]]:
    """Yield figures 6 to 9 and 12: name, chart or None, and the text to show without a chart.

    Figure 9 shows the applications of the paper's section 6.1 if the data has any, else all.
    """
    columns, targets = list(table.columns), table.targets
    scores = zscores(table.runs[columns].to_numpy(np.float64))
    rates = pd.DataFrame(scores, columns=columns).where(table.runs[columns].notna())
    seeds = targets[targets["application"].isin(SECTION_6_1)]
    shown = targets if seeds.empty else seeds
    numbered_rows = shown.assign(row=shown.groupby("application").cumcount())
    values = numbered_rows.pivot(index="row", columns="application", values="value")
    applications = (values - values.mean()) / values.std(ddof=0).where(lambda spread: spread > 0)
    alike = correlation_chart("figure-7", rates, "all machines")
    numbered = series_chart(targets)
    yield "Figure 6 of the quiho paper", boxes_chart("figure-6", rates, "stressor"), ""
    yield "Figure 7 of the quiho paper", alike, "Fewer than two stressors have different rates."
    yield "Figure 8 of the quiho paper", components_chart(scores), ""
    yield "Figure 9 of the quiho paper", boxes_chart("figure-9", applications, "application"), ""
    missing = "It needs application names that differ only in a final number."
    yield "Figure 12 of the quiho paper", numbered, missing


def find_contradiction(table: FingerprintTable, seed: int) -> dict[str, Any] | None:
    """Return figures 15 and 16: three rankings of an application's top five stressors on two machines.

    The ``application`` is ``redis-set``, else the first by name; both ``machines`` are drawn by `seed` from
    those that ran it. The ``rankings`` (lists of `Bar`, the largest 100) are by the quiho paper's method with
    the seeds 0, 1 and 2; ``agree`` is the number of stressors in all three. ``chart`` has the correlations on
    both machines, or is None if fewer than two stressors differ between these. The result is None if fewer
    than two machines ran the application, or there is none.
    """
    if not table.applications:
        return None
    application = CONTRADICTED if CONTRADICTED in table.applications else table.applications[0]
    measured = table.measurements_of(application)
    machines = np.unique(measured.machines)
    if len(machines) < 2:  # noqa: PLR2004 - two random machines
        return None
    a, b = np.sort(np.random.default_rng(seed).choice(machines, 2, replace=False))
    two = measured.select_rows(np.isin(measured.machines, [a, b]))
    importances = [scale_importances(seed_shares(two, number)) for number in range(TIMES)]
    rankings = [bars_from_shares(pd.Series(row, list(two.columns))) for row in importances]
    common = set.intersection(*({bar.name for bar in ranking} for ranking in rankings))
    rates = pd.DataFrame(two.x, columns=list(two.columns))
    return {
        "application": application,
        "machines": (str(a), str(b)),
        "chart": correlation_chart("figure-15", rates, "two machines"),
        "rankings": rankings,
        "agree": len(common),
    }
