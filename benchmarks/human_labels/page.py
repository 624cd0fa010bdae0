"""The page: docs/results/human-labels.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.human_labels.engineers import Engineer, pooled
from benchmarks.human_labels.judges import (
    ALARMS,
    Cases,
    Curve,
    Judge,
    Worth,
    at_best,
    average_precision,
    from_other_folds,
    worth,
)
from benchmarks.table import Table

COMMAND = "uv run python -m benchmarks.human_labels"
FIXED = {
    "judge": "", "kind": "", "setting": "", "balanced accuracy": ".3f", "± over folds": ".3f",
    "missed fails": ".1%", "false alarms": ".2%", "processor seconds": ".1f",
}  # fmt: skip
CHOSEN = {
    "judge": "", "kind": "", "threshold from other folds": ".3f", "± over folds": ".3f",
    "at the best threshold": ".3f", "± over folds then": ".3f", "missed fails then": ".1%",
    "false alarms then": ".2%", "average precision": ".3f", "± of it over folds": ".3f",
    **{f"missed at {share:.1%} false alarms": ".1%" for share in ALARMS},
}  # fmt: skip
PEOPLE = {
    "engineer": "", "boundaries": "d", "fails": "d", "balanced accuracy": ".3f", "missed fails": ".1%",
    "false alarms": ".2%", "fails judged by both": "d", "engineer there": ".3f", "perfjudge there": ".3f",
    "perfjudge missed": ".1%", "perfjudge's false alarms": ".2%",
}  # fmt: skip

AS_ONE_GETS_IT = (
    "Figures count the verdicts of all test folds; ± is the balanced accuracy's deviation over them.",
    "Models have parameters and thresholds from inside each training part; tools and rules their defaults.",
    "Seconds of the processor: of models for vectors and probabilities (from 1,000), of tools for theirs.",
)
AS_CHOSEN = (
    "Threshold from other folds: models have theirs from inside the training part.",
    (
        "The best threshold is chosen on the very cases told, one for all folds, in everyone's favour; "
        "for tools, so is how near to the boundary a point has to be (0 to 5 versions)."
    ),
    "Average precision is the mean over the folds; what is missed at so many false alarms, at one threshold.",
)


@dataclass(frozen=True)
class Told:
    """A view of the comparisons, and who judged what it shows.

    Attributes
    ----------
    title : str
    cases : Cases
    judges : sequence of Judge
    notes : sequence of str
    """

    title: str
    cases: Cases
    judges: Sequence[Judge]
    notes: Sequence[str]

    def tables(self) -> list[Table]:
        """Return what all are worth at the setting one gets, and at thresholds that are chosen."""
        fixed = [(*_rates(one, self.cases), one.seconds) for one in self.judges if one.judged is not None]
        chosen = [_chosen(one, self.cases) for one in self.judges if one.score is not None]
        titles = f"{self.title}: at the setting one gets", f"{self.title}: at chosen thresholds"
        return [
            Table(titles[0], COMMAND, FIXED, _best_first(fixed, 3), [*self.notes, *AS_ONE_GETS_IT]),
            Table(titles[1], COMMAND, CHOSEN, _best_first(chosen, 4), [*self.notes, *AS_CHOSEN]),
        ]

    @property
    def champion(self) -> Judge:
        """The model with the highest balanced accuracy at thresholds from inside the training part."""
        own = [one for one in self.judges if one.kind == "model" and one.judged is not None]
        return max(own, key=lambda one: _balanced(one, self.cases))

    def best_of(self, kind: str) -> Judge:
        """Return the judge of a kind with the highest balanced accuracy at the best threshold."""
        own = [one for one in self.judges if one.kind == kind and one.score is not None]
        return max(own, key=lambda one: self.top(one).balanced)

    def top(self, judge: Judge) -> Worth:
        """Score a judge at its best threshold."""
        assert judge.score is not None
        return at_best(self.cases, judge.score)


def _balanced(judge: Judge, cases: Cases) -> float:
    assert judge.judged is not None
    return worth(cases, judge.judged).balanced


def _rates(judge: Judge, cases: Cases) -> tuple[object, ...]:
    assert judge.judged is not None
    own = worth(cases, judge.judged)
    return judge.name, judge.kind, judge.setting, own.balanced, own.spread, own.missed, own.alarms


def _chosen(judge: Judge, cases: Cases) -> tuple[object, ...]:
    assert judge.score is not None
    if judge.inside and judge.judged is not None:
        honest = worth(cases, judge.judged)
    else:
        honest = from_other_folds(cases, judge.score)
    top, curve = at_best(cases, judge.score), Curve.of(cases.failed, judge.score)
    rates = honest.balanced, honest.spread, top.balanced, top.spread, top.missed, top.alarms
    missed = (curve.missed_at(share) for share in ALARMS)
    return judge.name, judge.kind, *rates, *average_precision(cases, judge.score), *missed


def _best_first(rows: list[tuple[object, ...]], column: int) -> list[tuple[object, ...]]:
    return sorted(rows, key=lambda row: -float(str(row[column])))


def people(engineers: list[Engineer], cases: Cases, judge: Judge, notes: Sequence[str]) -> Table:
    """Return the engineers, all together and one by one, beside a judge on the same boundaries."""
    told = sorted((one for one in engineers if one.told), key=lambda one: -one.worth.balanced)
    few = len(engineers) - len(told)
    rows = [_person(one, cases, judge) for one in (pooled(engineers), *told)]
    last = f"{few} engineers with too few boundaries or fails are in the first row only." if few else ""
    title = "The engineers, each beside the consensus of the others"
    return Table(title, COMMAND, PEOPLE, rows, [*notes, *filter(None, [last])])


def _person(one: Engineer, cases: Cases, judge: Judge) -> tuple[object, ...]:
    assert judge.judged is not None
    own, (here, other) = one.worth, one.among(cases, judge.judged)
    there = (here.worth.balanced, other.worth.balanced, other.worth.missed, other.worth.alarms)
    counts = len(one.failed), int(one.failed.sum())
    return one.name, *counts, own.balanced, own.missed, own.alarms, int(here.failed.sum()), *there


def headline(view: Told) -> str:
    """Say who of each kind is best."""
    kinds = sorted({one.kind for one in view.judges if one.score is not None})
    said = (
        f"{top.name} ({kind}) {view.top(top).balanced:.3f}" for kind in kinds for top in [view.best_of(kind)]
    )
    return f"Best of each kind at its best threshold: {', '.join(said)}."
