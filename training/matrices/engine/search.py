"""The engine's search inside its training cases (seed 001, sections 4.2 and 4.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.estimators.catalogue import Model, suggested
from training.evaluation.search import Search, drawn
from training.evaluation.thresholds import Promised, best_cut
from training.matrices.engine.judges import SAMPLERS, Alarms, Cases, Judges
from training.matrices.engine.shape import NONE, Caused

if TYPE_CHECKING:
    from optuna import Trial

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Training cases are parted 2:1, whole test cases.
PARTS = 3
#: Up to so many rows every third is held out in turn in each trial; of more, one third tells enough.
TURNS = 2_000
#: Up to so many rows probability and threshold come from all three thirds.
CALIBRATED = 10_000
#: A trial learns from about so many rows at most, which is enough to compare parameters.
LEARNED = 20_000
#: Up to so many rows it is searched what a group's own classifier counts; of more, it judges alone.
SHARED = 2_000
SHARES = (0.0, 0.5, 1.0)
#: Numbers of components that are tried: the most allowed, and each time this share of it.
HALF, FEWEST = 0.5, 4
RATES = (0.05, 1.0)
COSTS = (1.0, 64.0)
EVEN = 0.5


@dataclass(frozen=True)
class Calibration:
    """From the classifiers' log-odds to a probability, and from which probability on it is abnormal.

    Platt's: the log-odds of the probability are a straight line.
    """

    slope: float = 1.0
    shift: float = 0.0
    threshold: float = EVEN

    @classmethod
    def of(cls, y: Labels, odds: Floats) -> Calibration:
        """Learn from cases that the classifiers had not seen; `y` and `odds` of shape (n_cases,)."""
        from sklearn.linear_model import LogisticRegression

        spread = float(odds.std())
        if len(np.unique(y)) < len((0, 1)) or not spread > 0:
            return cls()
        line = LogisticRegression().fit(odds[:, None] / spread, y)
        slope = float(line.coef_[0, 0]) / spread
        # classifiers that are worse than guessing stay so
        line_of = cls(slope, float(line.intercept_[0])) if slope > 0 else cls()
        cut = best_cut(y, line_of.probability(odds))
        return cls(line_of.slope, line_of.shift, cut.threshold)

    def probability(self, odds: Floats) -> Floats:
        """Return the probability of abnormal."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * odds + self.shift))

    def kept(self, promised: Promised) -> Calibration:
        """Return it with a threshold that is no lower than what was `promised`."""
        return replace(self, threshold=max(self.threshold, promised.cut or 0.0))


@dataclass(frozen=True)
class Chosen:
    """The outcome of a search.

    Attributes
    ----------
    params : dict
        The classifier's own, and ``components, sampler, rate, cost_ratio, share``.
    rows, pairs : Calibration
        Of single rows, and of pairs.
    score : float
        The best trial's value; NaN where nothing was searched.
    ranking : float
        Average precision over all held-out pairs; NaN where the threshold is one half.
    alarms : Promised or None
        The guarantee on the share of normal pairs of other test cases with an alarm.
    """

    params: dict[str, Any]
    rows: Calibration
    pairs: Calibration
    score: float
    ranking: float = float("nan")
    alarms: Promised | None = None


@dataclass(frozen=True)
class SearchQuestion:
    """What to search.

    `cases` have both labels; `groups` get their own classifiers; `most` is the largest number of components,
    None: no projection; `balance` and `tuned` as in `Scheme`; `fixed` parameters are not searched; `causes`
    are those known of abnormal pairs, by pair; `alarms` is the guarantee on false alarms.
    """

    model: Model
    cases: Cases
    groups: Collection[str]
    most: int | None
    balance: bool
    tuned: bool
    fixed: Mapping[str, Any]
    seed: int
    causes: Mapping[str, str] = field(default_factory=dict)
    alarms: Alarms | None = None

    @property
    def start(self) -> dict[str, Any]:
        """The parameters where nothing is searched."""
        plain = {"components": self.most, "sampler": "none", "cost_ratio": 1.0, "share": 1.0}
        return {**plain, **self.model.start, **self.fixed}

    @property
    def ladder(self) -> list[int | None]:
        """Numbers of components, falling; 0 last if there are other columns; None (no projection) first."""
        steps: list[int | None] = []
        count = min(self.most or 0, self.cases.width)
        while count >= FEWEST or (count and not steps):
            steps.append(count)
            count = int(count * HALF)
        steps += [0] if steps and self.cases.beside else []
        return [None, *steps] if steps and self.cases.plain is not None else steps

    @property
    def free(self) -> frozenset[str]:
        """What is left to search."""
        names = {"components"} if len(self.ladder) > 1 else set()
        if self.balance:
            names |= {"sampler"} | ({"cost_ratio"} if self.model.weighted else set())
            names |= {"share"} if self.groups and len(self.cases.y) <= SHARED else set()
        names |= {"own"} if self.tuned else set()
        return frozenset(names - set(self.fixed))

    def suggested(self, trial: Trial) -> dict[str, Any]:
        """Return the parameters that `trial` is to try."""
        params, free = self.start, self.free
        if "components" in free:
            params["components"] = trial.suggest_categorical("components", self.ladder)
        if "sampler" in free:
            params["sampler"] = trial.suggest_categorical("sampler", list(SAMPLERS))
            params["rate"] = trial.suggest_float("rate", *RATES, log=True)
        if "cost_ratio" in free:
            params["cost_ratio"] = trial.suggest_float("cost_ratio", *COSTS, log=True)
        if "share" in free:
            params["share"] = trial.suggest_categorical("share", list(SHARES))
        if "own" in free:
            params |= suggested(self.model.space, trial)
        return {**params, **self.fixed}

    def first(self) -> dict[str, Any]:
        """Return what the search tries first: everything as it is, errors cost as much as they are rare."""
        even = float(np.clip((self.cases.y == 0).sum() / self.cases.y.sum(), *COSTS))
        params = {**self.start, "components": self.ladder[0] if self.ladder else None, "rate": EVEN}
        own = self.model.start if self.tuned else {}
        names = (self.free - {"own"}) | ({"rate"} if "sampler" in self.free else set())
        return {
            **{name: params[name] for name in names},
            **own,
            **({"cost_ratio": even} if "cost_ratio" in self.free else {}),
        }


def search(question: SearchQuestion, trials: int) -> Chosen:
    """Find parameters, calibration and threshold.

    A trial is worth the mean of two measures of the held-out rows: balanced accuracy at the best threshold
    (at one half, where none is searched), and average precision, which steadies the first. The threshold
    comes from the same held-out cases, judged with what was chosen; where the classifier is tuned and causes
    are known, from these and from cases that were held out with their causes, too: what is known is told with
    more confidence than what is not. Where a share of false alarms is promised, the threshold keeps it. Where
    abnormal rows come from too few test cases to be parted, nothing is searched.
    """
    cases, start = question.cases, question.start
    parts = thirds(cases, question.seed)
    if parts is None:
        return Chosen(start, Calibration(), Calibration(), float("nan"))
    turns = range(PARTS if len(cases.y) <= TURNS else 1)
    best = Trialled(start, float("nan"))
    if question.free and trials > 0:
        best = _best(question, parts, turns, trials)
    params, score = best.params, best.score
    if not question.balance:
        return Chosen(params, Calibration(), Calibration(), score)
    last = range(PARTS if len(cases.y) <= CALIBRATED else 1)
    as_in_search = last == turns and len(cases.y) <= LEARNED and not question.model.in_search
    held_out = best.held_out if as_in_search else None
    tested, odds = held_out or _held_out(question, params, parts, last)
    of_rows = Calibration.of(cases.y[tested], odds)
    held = _told_of_pairs(cases, tested, odds)
    both = pd.concat([held, *_without_causes(question, params, parts)])
    of_pairs, ranking = Calibration.of(*_labelled(both)), average_precision(*_labelled(both))
    if question.alarms is None:
        return Chosen(params, of_rows, of_pairs, score, ranking)
    told = held.assign(told=of_pairs.probability(held["odds"].to_numpy()))
    promised = question.alarms.kept(told, question.seed)
    return Chosen(params, of_rows, of_pairs.kept(promised), score, ranking, promised)


def in_pairs(cases: Cases, chosen: NDArray[np.bool_], odds: Floats) -> tuple[Floats, Labels]:
    """Return the mean log-odds of the target rows of each pair, and whether one is abnormal (1).

    `chosen` has shape (n_rows,), `odds` (n_chosen,); pairs are in the order of their first target rows.
    """
    rows = cases.target[chosen]
    pair, names = pd.factorize(cases.pair[chosen][rows])
    sizes = np.bincount(pair, minlength=len(names))
    labels = np.bincount(pair, cases.y[chosen][rows], len(names)) > 0
    return np.bincount(pair, odds[rows], len(names)) / sizes, labels.astype(np.int64)


def _told_of_pairs(cases: Cases, chosen: NDArray[np.bool_], odds: Floats) -> pd.DataFrame:
    """Return ``pair, workload, odds, y`` of the pairs of what was held out; `odds` of shape (n_chosen,)."""
    of_pairs, labels = in_pairs(cases, chosen, odds)
    target = chosen & cases.target
    pairs = pd.DataFrame({"pair": cases.pair[target], "workload": cases.workload[target]})
    return pairs.drop_duplicates("pair").assign(odds=of_pairs, y=labels)


def _without_causes(
    question: SearchQuestion, params: Mapping[str, Any], parts: NDArray[np.intp]
) -> Iterator[pd.DataFrame]:
    """Yield what is told of pairs held out with their causes; of many rows, one part tells enough."""
    cases = question.cases
    if not question.causes or not question.tuned:
        return
    cause = np.array([question.causes.get(pair, NONE) for pair in cases.pair], object)
    found = Caused(cases.workload, cause, cases.y == 1).parted(parts, question.seed)
    for part in found if len(cases.y) <= CALIBRATED else found[:1]:
        judges = _judges(question, params, part.learned)
        yield _told_of_pairs(cases, part.asked, judges.log_odds(cases, part.asked))


def _judges(question: SearchQuestion, params: Mapping[str, Any], chosen: NDArray[np.bool_]) -> Judges:
    cases, groups, seed = question.cases, question.groups, question.seed
    return Judges.fit(question.model, params, cases, chosen=chosen, groups=groups, seed=seed)


def thirds(cases: Cases, seed: int) -> NDArray[np.intp] | None:
    """Part the cases into 0, 1 and 2: whole test cases, groups and abnormal rows in equal shares.

    None where a third, or the rest without it, has one label only.
    """
    workload, place = np.unique(cases.workload.astype(str), return_inverse=True)
    group = np.unique(cases.group.astype(str), return_inverse=True)[1]
    abnormal = np.bincount(place, cases.y)
    size = np.bincount(place)
    of = np.zeros(len(workload), np.intp)
    of[place] = group
    counts = np.zeros((3, PARTS, int(group.max()) + 1))
    part = np.zeros(len(workload), np.intp)
    shuffled = np.random.default_rng(seed).permutation(len(workload))
    for case in shuffled[np.argsort(-abnormal[shuffled], kind="stable")]:
        bad, any_bad, rows = counts
        first = 0 if abnormal[case] else 2
        here = (bad[:, of[case]], any_bad[:, 0], rows[:, of[case]], rows.sum(axis=1))[first:]
        part[case] = np.lexsort(here[::-1])[0]
        counts[0, part[case], of[case]] += abnormal[case]
        counts[1, part[case], 0] += abnormal[case]
        counts[2, part[case], of[case]] += size[case]
    found = part[place]
    labels = np.array([[((found == third) & (cases.y == y)).sum() for y in (0, 1)] for third in range(PARTS)])
    return found if (labels > 0).all() else None


@dataclass(frozen=True)
class Trialled:
    """What was tried: parameters, what they are worth, which rows were held out, and their log-odds."""

    params: dict[str, Any]
    score: float
    held_out: tuple[NDArray[np.bool_], Floats] | None = None


def _best(question: SearchQuestion, parts: NDArray[np.intp], turns: Collection[int], trials: int) -> Trialled:
    first = [question.first()]
    sampler = drawn(question.seed, max(4, trials // 3))
    if question.free == {"components"}:
        first = [{"components": count} for count in question.ladder[:trials]]
        trials = min(trials, len(question.ladder))
    tried: dict[int, Trialled] = {}
    some = np.random.default_rng(question.seed).random(len(parts)) * len(parts) < LEARNED

    def worth(trial: Trial) -> float:
        params = question.suggested(trial)
        tested, odds = _held_out(question, {**params, **question.model.in_search}, parts, turns, some)
        score = _worth(question.cases.y[tested], odds, at_best=question.balance)
        tried[trial.number] = Trialled(params, score, (tested, odds))
        return score

    study = Search("maximize", trials, first, lambda _: sampler).run(worth)
    return tried[study.best_trial.number]


def _held_out(
    question: SearchQuestion,
    params: Mapping[str, Any],
    parts: NDArray[np.intp],
    turns: Collection[int],
    some: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.bool_], Floats]:
    """Return which rows were held out, and their log-odds; learn from the rest, or from `some` of it."""
    cases, odds = question.cases, np.zeros(len(parts))
    for third in turns:
        rest = parts != third
        chosen = rest if some is None or len(np.unique(cases.y[rest & some])) == 1 else rest & some
        odds[parts == third] = _judges(question, params, chosen).log_odds(cases, parts == third)
    tested = np.isin(parts, list(turns))
    return tested, odds[tested]


def _labelled(pairs: pd.DataFrame) -> tuple[Labels, Floats]:
    return pairs["y"].to_numpy(), pairs["odds"].to_numpy()


def average_precision(y: Labels, odds: Floats) -> float:
    """Return how well `odds` rank cases; `y` and `odds` of shape (n_cases,)."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(y, odds))


def _worth(y: Labels, odds: Floats, *, at_best: bool) -> float:
    precision = average_precision(y, odds)
    if at_best:
        return (best_cut(y, odds).balanced_accuracy + precision) / 2
    accuracy = ((odds[y == 1] >= 0).mean() + (odds[y == 0] < 0).mean()) / 2
    return (float(accuracy) + precision) / 2
