"""What the report tells those who act on it: what to ask for, what to look at, when not to rely on it."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from serving.comparisons.evaluated import EvaluatedComparisons
from serving.comparisons.labels.doubted import Doubts
from serving.comparisons.promises.charts import ModelPromises, Rates
from serving.pages.apart import Leaders, listed
from serving.pages.charts import counted, percent

#: A person looks at up to this share of the comparisons, if that is what a promise costs.
_BEARABLE = 0.2


def advice(evaluated: EvaluatedComparisons, champion: pd.DataFrame, doubts: Doubts) -> Iterator[str]:
    """Yield sentences for the person who must act.

    Parameters
    ----------
    evaluated : EvaluatedComparisons
    champion : DataFrame
        Its verdicts on the grouped folds.
    doubts : Doubts
    """
    metrics = evaluated.metrics
    promises = metrics.promises.get("grouped", {}).get(metrics.champion)
    if promises:
        yield _asked(promises)
    if doubts.suspects:
        first = listed([one.comparison_id for one in doubts.suspects[:3]])
        yield (
            f"Look at {counted(doubts.many, 'label')} again before the next training, first at {first}: "
            "`perfjudge labels suspects` lists them with the reasons."
        )
    wrong = _where_wrong(evaluated, champion)
    if wrong:
        yield wrong
    models = evaluated.of("grouped", "model")
    right = models.assign(right=models["verdict"] == models["status"])
    leaders = Leaders.of(right.pivot_table(index="fold", columns="entry", values="right"))
    if metrics.champion in leaders.all and leaders.alike:
        others = [name for name in leaders.all if name != metrics.champion]
        yield (
            f"Do not choose another model for a few thousandths: on these folds {listed(others)} cannot be "
            f"told from {metrics.champion}. More labels of other operations say more than more models."
        )
    yield (
        "Do not rely on a verdict about a machine, a unit or a kind of benchmark that is not among "
        f"these {metrics.data.operations:,} operations; a server's overview shows how far what is asked "
        f"drifts."
    )


def _asked(promises: ModelPromises) -> str:
    """Name the strictest promise of misses that costs few looks, and what the next stricter one costs."""
    kept = [one for one in promises.missed if one.made == one.folds == one.held]
    bearable = [one for one in kept if one.unsure <= _BEARABLE]
    if not bearable:
        return (
            "Promise nothing about misses with so few labels: no share was kept on all folds without sending "
            f"more than {percent(_BEARABLE, 0)} of the comparisons to a person."
        )
    best = min(bearable, key=lambda one: one.share)
    told = (
        f"Ask for at most {percent(best.share, 0)} missed (`--missed {100 * best.share:g}`): it was kept on "
        f"all {best.folds} folds, at {percent(best.false_alarms)} false alarms, and a person looks at "
        f"{percent(best.unsure)} of the comparisons"
    )
    return f"{told}{_stricter(kept, best)}."


def _stricter(kept: list[Rates], best: Rates) -> str:
    stricter = [one for one in kept if one.share < best.share]
    if not stricter:
        return ""
    dear = max(stricter, key=lambda one: one.share)
    return f"; at most {percent(dear.share, 1)} would send {percent(dear.unsure)} to a person"


def _where_wrong(evaluated: EvaluatedComparisons, champion: pd.DataFrame) -> str:
    """Name the operations with the most wrong verdicts."""
    names = evaluated.tables.comparisons.set_index("comparison_id")["operation"]
    wrong = champion[champion["verdict"] != champion["status"]]["comparison_id"].map(names)
    if wrong.empty:
        return ""
    worst = wrong.value_counts()
    worst = worst[worst == worst.max()].sort_index()
    where = listed([str(name) for name in worst.index])
    each = "" if len(worst) == 1 else " each"
    return (
        f"Trust verdicts on {where} least: {worst.iloc[0]} of the {counted(len(wrong), 'wrong verdict')} "
        f"{'is' if worst.iloc[0] == 1 else 'are'} there{each}. Measure them longer, or look yourself."
    )
