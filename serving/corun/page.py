"""Report on co-runs: figures and table of the co-run paper for the present data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serving.corun.charts import (
    events_chart,
    heat_map,
    importance_chart,
    placement_chart,
    residual_chart,
    seconds_chart,
    times_chart,
    trend_chart,
)
from serving.corun.evaluated import EvaluatedCoruns, PlacementCheck, check_placements
from serving.corun.worst_cases import WorstCoruns
from serving.reports.charts import percent
from serving.reports.evaluation_files import other_data_rows
from serving.reports.rendering import CORUN, render

#: By evaluation design: its name in advice, and its description.
DESIGNS = {
    "random": (
        "pairs that may be in the training data with swapped roles",
        "Random (the co-run paper's split): training data may contain the same pair with swapped roles",
    ),
    "pairs": (
        "pairs that never ran together",
        "Pairs held out in both roles: A with B, together with B with A",
    ),
    "pairs-on-machine": (
        "pairs that never ran together on that machine",
        "Pairs held out on that machine, perhaps measured on others",
    ),
    "tasks": ("tasks that never ran with others", "Tasks held out: both the task and its co-runner"),
    "machines": ("machines on which nothing was measured", "Machines held out"),
}
#: Shortfall of the coverage from which intervals count as too narrow.
_SHORT = 0.05


def report_advice(evaluation: EvaluatedCoruns, checked: PlacementCheck | None) -> Iterator[str]:
    """Yield sentences of advice as plain text: on the static model, a pair, placements, and the error.

    The model has one or two sentences (for which evaluation designs to use it, and for which not), the error
    has one. A pair to keep apart has one if pairs were measured, placements unless `checked` is None.
    """
    metrics = evaluation.metrics
    scores = {name: split.entries[metrics.champion] for name, split in metrics.splits.items()}
    names = {name: DESIGNS[name][0] for name in scores}
    main = scores[metrics.main]
    useless = [names[name] for name, score in scores.items() if not (score.r2.pooled or 0) > 0]
    if names[metrics.main] not in useless:
        covered = main.coverage.pooled or 0.0
        trust = "Trust" if covered >= metrics.confidence - _SHORT else "Do not trust"
        yield (
            f"Use the static model for {names[metrics.main]}: {percent(main.within_tolerance.pooled)} of its "
            f"predictions are within {percent(metrics.tolerance, 0)}. {trust} its intervals: they cover "
            f"{percent(covered)} of the impacts (nominal: {percent(metrics.confidence, 0)})."
        )
    if useless:
        yield (
            f"Do not rely on the static model for {' or '.join(useless)}: R² is not above 0, so its "
            f"predictions are no better than always predicting the mean impact."
        )
    if evaluation.strongest_pair is not None:
        task, other = evaluation.strongest_pair
        slower = percent(float(evaluation.impact_matrix.loc[task, other]) - 1, 0)
        typical = percent(float(evaluation.impact_matrix.stack().median()) - 1)
        yield (
            f"Do not run {task} together with {other}: {task} is then {slower} slower (median of all pairs: "
            f"{typical})."
        )
    if checked:
        yield _placement_advice(checked, metrics.repeatability.solo_spread)
    yield _noise_advice(metrics.repeatability.mape, main.mape.pooled)


def _placement_advice(checked: PlacementCheck, noise: float | None) -> str:
    saved = (
        "If predictions decide which tasks share a machine, the run time, computed from measured pairs, is "
        f"{percent(checked.chosen_saving)} less than with random placements"
    )
    if noise is not None and checked.chosen_saving <= noise:
        return (
            f"{saved}. That is too little to rely on: solo runs of one task alone vary by {percent(noise)}."
        )
    best = percent(checked.best_saving)
    return f"{saved}, and with the best possible placement {best} less. Use `perfjudge corun place`."


def _noise_advice(repeats: float | None, error: float | None) -> str:
    if repeats is None or error is None:
        return "Measure some co-runs twice: without repetitions, the measurement error is unknown."
    if error <= repeats:
        return (
            "Measure longer or on a quieter machine before you look for a better model: the model's mean "
            f"error ({percent(error)}) may be mostly measurement noise, because repeated measurements of a "
            f"co-run differ by {percent(repeats)} on average."
        )
    return (
        f"A better model is possible: repeated measurements have a smaller mean error ({percent(repeats)}) "
        f"than the model ({percent(error)})."
    )


def page(root: Path) -> str:
    """Return the report on the evaluated co-runs of the project `root` as self-contained HTML.

    InputError if a file of the stages is missing or invalid; measured placements may be absent.
    """
    evaluation = EvaluatedCoruns.read(root)
    metrics, repeats = evaluation.metrics, evaluation.metrics.repeatability
    checked = check_placements(*evaluation.held_out, evaluation.solo_seconds, metrics.seed)
    online, online_residuals = metrics.online, None
    if online:
        part = "Whole tasks" if online.design == "tasks" else "Co-runs"
        early = f"{part} held out of training; {online.trained_at:g} s of samples"
        name = f"Online model ({online.champion})"
        online_residuals = residual_chart("figure-4", evaluation.online_residuals, name, early)
    name, held_out = f"Static model ({metrics.champion})", DESIGNS[metrics.main][1]
    static_residuals = residual_chart("figure-5", evaluation.residuals, name, held_out)
    no_samples = "This data has no samples."
    return render(
        "corun.html",
        given=evaluation,
        metrics=metrics,
        splits=[(name, DESIGNS[name][1], split) for name, split in metrics.splits.items()],
        table_1=evaluation.seeds_cells(),
        measured=[
            (f"Figure 1 of {CORUN.short}", times_chart(evaluation), "No task ran beside two others."),
            ("All pairs", heat_map(evaluation), "No pairs were measured."),
            (f"Figure 2 of {CORUN.short}", events_chart(evaluation), "This data has no events of pairs."),
            (f"Figure 3 of {CORUN.short}", trend_chart(evaluation), no_samples),
        ],
        residuals=[
            (f"Figure 4 of {CORUN.short}", online_residuals, f"{no_samples[:-1]}, hence no online model."),
            (f"Figure 5 of {CORUN.short}", static_residuals, "No residuals were stored."),
        ],
        worst=WorstCoruns.from_evaluation(evaluation),
        importance=importance_chart(evaluation.importance),
        removed=evaluation.removed.to_dict("records"),
        seconds=online and seconds_chart(online, repeats, metrics.tolerance),
        check=checked,
        placements=checked and placement_chart(checked),
        run=evaluation.placements,
        points=list(report_advice(evaluation, checked)),
        transfer=other_data_rows(root, "corun"),
        papers=[CORUN],
    )
