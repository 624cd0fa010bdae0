"""Search for the engine's parameters and threshold in training cases (matrix paper, sections 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from data.matrices.tables import Flags, Floats, Labels, Whole
from training.estimators.catalogue import Model, suggest_params
from training.evaluation.metrics import average_precision
from training.evaluation.search import Search, tpe_sampler
from training.evaluation.thresholds import GuaranteedRate, best_cut
from training.matrices.engine.judges import SAMPLERS, Alarms, Cases, GroupClassifiers
from training.matrices.engine.models import CATALOGUE
from training.matrices.engine.shape import NONE, split_by_causes
from training.matrices.schemes import Cell, Scheme

if TYPE_CHECKING:
    from optuna import Trial


#: Training cases are split 2:1 by whole test cases.
PARTS = 3
#: Up to this number of rows, every trial holds out each third in turn; with more rows, only one third.
TURNS = 2_000
#: Up to this number of rows, calibration and threshold come from all three thirds; with more, from one.
CALIBRATED = 10_000
#: Approximate largest number of rows that a trial learns from; enough to compare parameters.
LEARNED = 20_000
#: Up to this number of rows, the weight of a group's own classifier is searched; with more, it decides alone.
SHARED = 2_000
SHARES = (0.0, 0.5, 1.0)
#: A trial's parameters and score, and if there was one, which rows were held out, and their log-odds.
Trialled: TypeAlias = tuple[dict[str, Any], float, tuple[Flags, Floats] | None]
#: The numbers of components that are tried fall by this factor from the largest allowed to `FEWEST`.
HALF, FEWEST = 0.5, 4
RATES = (0.05, 1.0)
COSTS = (1.0, 64.0)
EVEN = 0.5


@dataclass(frozen=True)
class Calibration:
    """Platt calibration of the classifiers' log-odds, and the threshold on the resulting probability.

    The calibrated log-odds are ``slope * odds + shift``.
    """

    slope: float = 1.0
    shift: float = 0.0
    threshold: float = EVEN

    @classmethod
    def from_log_odds(cls, y: Labels, odds: Floats) -> Calibration:
        """Return the calibration for out-of-fold log-odds; the identity for one label or equal log-odds."""
        from sklearn.linear_model import LogisticRegression

        spread = float(odds.std())
        if len(np.unique(y)) < len((0, 1)) or not spread > 0:
            return cls()
        line = LogisticRegression().fit(odds[:, None] / spread, y)
        slope = float(line.coef_[0, 0]) / spread
        # a classifier that is worse than guessing is not inverted
        line_of = cls(slope, float(line.intercept_[0])) if slope > 0 else cls()
        cut = best_cut(y, line_of.probability(odds))
        return cls(line_of.slope, line_of.shift, cut.threshold)

    def probability(self, odds: Floats) -> Floats:
        """Return the calibrated probability of abnormal, in the shape of the log-odds `odds`."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * odds + self.shift))


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    `params` are the classifier's hyperparameters, and ``components, sampler, rate, cost_ratio, share``;
    `rows` and `pairs` the calibrations for single rows and for pairs; `score` is the best trial's value (NaN
    where nothing was searched), `alarms` the guarantee on the share of normal pairs of new test cases that
    raise an alarm (or None).
    """

    params: dict[str, Any]
    rows: Calibration
    pairs: Calibration
    score: float
    alarms: GuaranteedRate | None = None


@dataclass(frozen=True)
class SearchInput:
    """The input of a search.

    `cases` must have both labels; `groups` get their own classifiers; `fixed` parameters are not searched;
    `causes` are the known causes of abnormal pairs, by pair; `alarms` is the guarantee on the false positive
    rate.
    """

    cell: Cell
    cases: Cases
    groups: Collection[str]
    seed: int
    fixed: Mapping[str, Any] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)
    alarms: Alarms | None = None

    @property
    def model(self) -> Model:
        """The cell's entry in the catalogue."""
        return CATALOGUE[self.cell.model]

    @property
    def scheme(self) -> Scheme:
        """The cell's scheme."""
        return self.cell.scheme

    @property
    def start_params(self) -> dict[str, Any]:
        """The parameters used where nothing is searched."""
        plain = {"components": self.scheme.components, "sampler": "none", "cost_ratio": 1.0, "share": 1.0}
        return {**plain, **self.model.start, **self.fixed}

    @property
    def component_counts(self) -> list[int | None]:
        """Numbers of components to try, falling; None (no projection) comes first, 0 (other columns) last."""
        steps: list[int | None] = []
        count = min(self.scheme.components or 0, self.cases.width)
        while count >= FEWEST or (count and not steps):
            steps.append(count)
            count = int(count * HALF)
        steps += [0] if steps and self.cases.n_beside else []
        return [None, *steps] if steps and self.cases.plain is not None else steps

    @property
    def searched_names(self) -> frozenset[str]:
        """The names of the parameters to search; "own" means the classifier's hyperparameters."""
        names = {"components"} if len(self.component_counts) > 1 else set()
        if self.scheme.balance:
            names |= {"sampler"} | ({"cost_ratio"} if self.model.weighted else set())
            names |= {"share"} if self.groups and len(self.cases.y) <= SHARED else set()
        names |= {"own"} if self.scheme.tuned else set()
        return frozenset(names - set(self.fixed))

    def fit_classifiers(self, params: Mapping[str, Any], chosen: Flags) -> GroupClassifiers:
        """Return classifiers fitted to the cases in the mask `chosen`, shape (n_rows,)."""
        groups, seed = self.groups, self.seed
        return GroupClassifiers.fit(self.model, params, self.cases, chosen=chosen, groups=groups, seed=seed)

    def suggest_params(self, trial: Trial) -> dict[str, Any]:
        """Return all parameters of a trial: searched ones from `trial`, others fixed or at their start."""
        params, free = self.start_params, self.searched_names
        if "components" in free:
            params["components"] = trial.suggest_categorical("components", self.component_counts)
        if "sampler" in free:
            params["sampler"] = trial.suggest_categorical("sampler", list(SAMPLERS))
            params["rate"] = trial.suggest_float("rate", *RATES, log=True)
        if "cost_ratio" in free:
            params["cost_ratio"] = trial.suggest_float("cost_ratio", *COSTS, log=True)
        if "share" in free:
            params["share"] = trial.suggest_categorical("share", list(SHARES))
        if "own" in free:
            params |= suggest_params(self.model.space, trial)
        return {**params, **self.fixed}

    def first_params(self) -> dict[str, Any]:
        """Return the first parameters to try: start values and a cost ratio that balances the classes."""
        even = float(np.clip((self.cases.y == 0).sum() / self.cases.y.sum(), *COSTS))
        params = {
            **self.start_params,
            "components": self.component_counts[0] if self.component_counts else None,
            "rate": EVEN,
            "cost_ratio": even,
        }
        names = (self.searched_names - {"own"}) | ({"rate"} if "sampler" in self.searched_names else set())
        return {name: params[name] for name in names} | (self.model.start if self.scheme.tuned else {})


def search_params(question: SearchInput, trials: int) -> SearchResult:
    """Return the parameters with the best score in `trials` trials, calibrations and thresholds.

    The result has ``params``; ``rows`` and ``pairs``, the calibrations for both, each with its ``threshold``;
    ``score``; and ``alarms``, the guarantee (None without one). A trial's score is the mean of two measures
    of held-out rows (each third of the test cases in turn; only one third of more than 2,000 rows): average
    precision, and balanced accuracy at the best threshold (at 0.5 if the scheme's ``balance`` is False).
    Without trials or parameters to search, the start values are used, and the score is NaN. The calibrations
    come from held-out cases judged with the chosen parameters; if the classifier is tuned and causes are
    known, that for pairs also uses cases held out together with their causes, because predictions are more
    confident for known causes than for new ones. A guarantee on the false positive rate can only raise the
    threshold for pairs. If ``balance`` is False, or a third of the test cases would lack a label, there is no
    calibration and no guarantee, and thresholds are 0.5; in the second case, nothing is searched either.
    """
    cases, start = question.cases, question.start_params
    parts = split_in_thirds(cases, question.seed)
    if parts is None:
        return SearchResult(start, Calibration(), Calibration(), float("nan"))
    turns = range(PARTS if len(cases.y) <= TURNS else 1)
    best: Trialled = (start, float("nan"), None)
    if question.searched_names and trials > 0:
        best = _best_trial(question, parts, turns, trials)
    params, score, found = best
    if not question.scheme.balance:
        return SearchResult(params, Calibration(), Calibration(), score)
    last = range(PARTS if len(cases.y) <= CALIBRATED else 1)
    as_in_search = last == turns and len(cases.y) <= LEARNED and not question.model.in_search
    tested, odds = (found if as_in_search else None) or _held_out(question, params, parts, last)
    of_rows = Calibration.from_log_odds(cases.y[tested], odds)
    pairs = _odds_of_pairs(cases, tested, odds)
    every = pd.concat([pairs, *_without_causes(question, params, parts)])
    y, pair_odds = every["y"].to_numpy(), every["odds"].to_numpy()
    of_pairs = Calibration.from_log_odds(y, pair_odds)
    if question.alarms is None:
        return SearchResult(params, of_rows, of_pairs, score)
    probable = pairs.assign(probability=of_pairs.probability(pairs["odds"].to_numpy()))
    promised = question.alarms.learn_guarantee(probable, question.seed)
    # at least the threshold that keeps the guarantee
    of_pairs = replace(of_pairs, threshold=max(of_pairs.threshold, promised.cut or 0.0))
    return SearchResult(params, of_rows, of_pairs, score, promised)


def mean_pair_odds(cases: Cases, chosen: Flags, odds: Floats) -> tuple[Floats, Labels]:
    """Return each pair's mean log-odds of its target rows, and 1 if one of these is abnormal, else 0.

    `chosen` (a mask) has shape (n_rows,), `odds` (n_chosen,); only chosen rows count. Both results have shape
    (n_pairs,), in the order of the pairs' first chosen target rows; pairs without any are left out.
    """
    rows = cases.target[chosen]
    pair, names = pd.factorize(cases.pair[chosen][rows])
    sizes = np.bincount(pair, minlength=len(names))
    labels = np.bincount(pair, cases.y[chosen][rows], len(names)) > 0
    return np.bincount(pair, odds[rows], len(names)) / sizes, labels.astype(np.int64)


def _odds_of_pairs(cases: Cases, chosen: Flags, odds: Floats) -> pd.DataFrame:
    """Return ``pair, workload, odds, y`` of the chosen pairs; `odds` has the shape (n_chosen,)."""
    of_pairs, labels = mean_pair_odds(cases, chosen, odds)
    target = chosen & cases.target
    pairs = pd.DataFrame({"pair": cases.pair[target], "workload": cases.workload[target]})
    return pairs.drop_duplicates("pair").assign(odds=of_pairs, y=labels)


def _without_causes(question: SearchInput, params: Mapping[str, Any], parts: Whole) -> Iterator[pd.DataFrame]:
    """Yield the log-odds of pairs held out with their causes; with many rows, of the first part only."""
    cases = question.cases
    if not question.causes or not question.scheme.tuned:
        return
    cause = np.array([question.causes.get(pair, NONE) for pair in cases.pair], object)
    splits = split_by_causes(cases.workload, cause, cases.y == 1, parts, question.seed)
    for train, test in splits if len(cases.y) <= CALIBRATED else splits[:1]:
        judges = question.fit_classifiers(params, train)
        yield _odds_of_pairs(cases, test, judges.log_odds(cases, test))


def split_in_thirds(cases: Cases, seed: int) -> Whole | None:
    """Return the part (0, 1 or 2) of each row, shape (n_rows,); None unless all parts have both labels.

    All rows of a test case are in the same part; labels and groups are spread about equally over the parts.
    Test cases with most abnormal rows are dealt first, equal ones in a random order by `seed`.
    """
    workload, place = np.unique(cases.workload.astype(str), return_inverse=True)
    group = np.unique(cases.group.astype(str), return_inverse=True)[1]
    abnormal, size = np.bincount(place, cases.y), np.bincount(place)
    group_of, part_of = np.zeros((2, len(workload)), np.intp)
    group_of[place] = group
    bad, rows = np.zeros((2, PARTS, int(group.max()) + 1))
    shuffled = np.random.default_rng(seed).permutation(len(workload))
    for case in shuffled[np.argsort(-abnormal[shuffled], kind="stable")]:
        case_group = group_of[case]
        keys = (rows.sum(axis=1), rows[:, case_group], bad.sum(axis=1), bad[:, case_group])
        part = np.lexsort(keys if abnormal[case] else keys[:2])[0]
        part_of[case] = part
        bad[part, case_group] += abnormal[case]
        rows[part, case_group] += size[case]
    thirds_of = part_of[place]
    has_both_labels = all(len(np.unique(cases.y[thirds_of == third])) > 1 for third in range(PARTS))
    return thirds_of if has_both_labels else None


def _best_trial(question: SearchInput, parts: Whole, turns: Collection[int], trials: int) -> Trialled:
    first = [question.first_params()]
    sampler = tpe_sampler(question.seed, max(4, trials // 3))
    if question.searched_names == {"components"}:
        first = [{"components": count} for count in question.component_counts[:trials]]
        trials = min(trials, len(question.component_counts))
    tried: dict[int, Trialled] = {}
    some = np.random.default_rng(question.seed).random(len(parts)) * len(parts) < LEARNED

    def score_of(trial: Trial) -> float | None:
        params = question.suggest_params(trial)
        learned = {**params, **question.model.in_search}
        tested, odds, score = np.zeros(len(parts), bool), np.zeros(len(parts)), 0.0
        for turn in turns:
            here, odds[parts == turn] = _held_out(question, learned, parts, [turn], some)
            tested |= here
            score = _trial_score(question.cases.y[tested], odds[tested], balance=question.scheme.balance)
            trial.report(score, turn)
            if turn != max(turns) and trial.should_prune():
                return None
        tried[trial.number] = params, score, (tested, odds[tested])
        return score

    study = Search("maximize", trials, first, lambda _: sampler).run(score_of)
    return tried[study.best_trial.number]


def _trial_score(y: Labels, odds: Floats, *, balance: bool) -> float:
    accuracy = float(((odds[y == 1] >= 0).mean() + (odds[y == 0] < 0).mean()) / 2)
    if balance:
        accuracy = best_cut(y, odds).balanced_accuracy
    return (accuracy + average_precision(y, odds)) / 2


def _held_out(
    question: SearchInput,
    params: Mapping[str, Any],
    parts: Whole,
    turns: Collection[int],
    some: Flags | None = None,
) -> tuple[Flags, Floats]:
    """Return which rows were held out, and their log-odds; learn from the rest, or from `some` of it."""
    cases, odds = question.cases, np.zeros(len(parts))
    for third in turns:
        rest = parts != third
        chosen = rest if some is None or len(np.unique(cases.y[rest & some])) == 1 else rest & some
        odds[parts == third] = question.fit_classifiers(params, chosen).log_odds(cases, parts == third)
    tested = np.isin(parts, list(turns))
    return tested, odds[tested]
