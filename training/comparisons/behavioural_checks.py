"""Behavioural checks: clear cases, and the properties that a model's probabilities must have on them.

Samples are drawn, or made by hand, at several magnitudes, in both directions and with several configurations.
A violation names the check and the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from data.comparisons.posted import named_sides
from data.comparisons.request import Comparison, Configuration
from data.comparisons.sides import Floats, Sides

#: Earlier runs of a configuration, the oldest first.
Runs = tuple[Floats, ...]
Better = Literal["lower", "higher"]
Holds = Callable[[Floats, float], NDArray[np.bool_]]

#: Probabilities that differ by less are equal.
SAME = 1e-9
_MAGNITUDES = (3.7e-6, 1.0, 240.0, 8.0e9)
_DIRECTIONS: tuple[Better, Better] = ("lower", "higher")
_WORSE = (0.05, 0.1, 0.2, 0.4, 1.0)


@dataclass(frozen=True)
class Case:
    """A comparison: baseline, target and earlier runs of every configuration, with a description."""

    description: str
    better: Better
    configurations: tuple[tuple[Floats, Floats, Runs], ...]

    def change_targets(self, change: Callable[[Floats], Floats], description: str = "") -> Case:
        """Return a copy with `change` applied to the targets."""
        configurations = tuple((b, change(t), h) for b, t, h in self.configurations)
        return replace(self, description=description or self.description, configurations=configurations)

    def change_all_samples(self, change: Callable[[Floats], Floats], description: str) -> Case:
        """Return a copy with `change` applied to all samples."""
        changed = ((change(b), change(t), tuple(map(change, h))) for b, t, h in self.configurations)
        return replace(self, description=description, configurations=tuple(changed))

    def worsen_targets(self, share: float) -> Case:
        """Return a copy with targets that are worse by `share`."""
        factor = 1 + share if self.better == "lower" else 1 / (1 + share)
        description = f"{100 * share:g} % worse, {self.description}"
        return self.change_targets(lambda samples: samples * factor, description)


@dataclass(frozen=True)
class BehaviouralCheck:
    """A property that a model's probabilities must have on clear cases."""

    name: str  # in words
    #: Takes the probabilities of the cases, in their order, and the threshold of ``fail``; returns for each
    #: whether it is correct.
    holds: Holds
    cases: tuple[Case, ...]


def find_violations(
    judge: Callable[[Sides], Floats], threshold: float, rules: Sequence[BehaviouralCheck]
) -> Iterator[str]:
    """Yield a sentence for each check that a model violates, in the order of `rules`.

    It has the name of the check, and the probability and the description of the check's first wrong case.
    `judge` takes the samples of the cases of all checks, and returns the model's probabilities of ``fail``,
    shape (n_cases,); it is called once. `threshold` is the probability from which the verdict is ``fail``.
    ValueError, at the first iteration, if `rules` is empty.
    """
    probability = judge(sides_of([case for rule in rules for case in rule.cases]))
    stops = np.cumsum([len(rule.cases) for rule in rules])
    for rule, probabilities in zip(rules, np.split(probability, stops[:-1]), strict=True):
        wrong = np.flatnonzero(~rule.holds(probabilities, threshold))
        if len(wrong):
            case = rule.cases[wrong[0]].description
            yield f'it breaks the rule "{rule.name}": {probabilities[wrong[0]]:.3f} for {case}'


def build_checks(seed: int) -> tuple[BehaviouralCheck, ...]:
    """Return all checks of a model's probabilities of ``fail``; `seed` draws the samples of their cases.

    A check has a ``name``, ``cases``, and ``holds``, which takes their probabilities and the threshold, and
    returns whether each is right.
    """
    draw = np.random.default_rng(seed)
    return (*_plain_checks(draw), *_order_checks(draw), *_invariance_checks(draw), *_verdict_checks(draw))


def sides_of(cases: Sequence[Case]) -> Sides:
    """Return the samples of all cases as flat arrays, one comparison per case, in their order."""
    return named_sides([_as_comparison(case) for case in cases]).sides


def _as_comparison(case: Case) -> Comparison:
    def as_configuration(threads: int, before: Floats, after: Floats, runs: Runs) -> Configuration:
        baseline, target, history = before.tolist(), after.tolist(), [run.tolist() for run in runs]
        return Configuration.model_construct(
            threads=threads, baseline=baseline, target=target, history=history
        )

    configurations = [as_configuration(number, *sides) for number, sides in enumerate(case.configurations, 1)]
    return Comparison.model_construct(
        comparison_id=case.description, operation="", better=case.better, configurations=configurations
    )


def draw_unchanged(
    draw: np.random.Generator,
    noise: float,
    size: int,
    *,
    level: float = 100.0,
    better: Better = "lower",
    configurations: int = 1,
    history: int = 0,
) -> Case:
    """Return a random comparison of one build: baseline and target have the same `level`.

    Each side and each of the `history` earlier runs has `size` normal samples around `level`, in every one of
    the `configurations`; `noise` is their standard deviation as a share of the level. If `history` is above
    0, each side and earlier run of each configuration has its own level, which is normal around `level` with
    a third of this deviation. Samples are not bounded at 0, and do not depend on `better`.
    """

    def draw_run() -> Floats:
        offset = 1 + noise / 3 * draw.standard_normal() if history else 1.0
        return np.asarray(level * offset * (1 + noise * draw.standard_normal(size)))

    sides = tuple(
        (draw_run(), draw_run(), tuple(draw_run() for _ in range(history))) for _ in range(configurations)
    )
    description = (
        f"{size} samples a side that scatter by {100 * noise:g} % around {level:g}, {better} is better, "
        f"{configurations} configurations, {history} earlier runs"
    )
    return Case(description, better, sides)


def _draw_unchanged_cases(
    draw: np.random.Generator, noises: Sequence[float], histories: Sequence[int]
) -> Iterator[Case]:
    settings = product(noises, (3, 5, 10, 30), _DIRECTIONS, histories)
    for number, (noise, size, better, history) in enumerate(settings):
        level = _MAGNITUDES[number % len(_MAGNITUDES)]
        yield draw_unchanged(
            draw, noise, size, level=level, better=better, configurations=1 + number % 3, history=history
        )


def _centre_runs(case: Case) -> Case:
    """Return a copy where all runs of a configuration have the baseline's median."""
    configurations = tuple(
        (b, t * (np.median(b) / np.median(t)), tuple(h * (np.median(b) / np.median(h)) for h in past))
        for b, t, past in case.configurations
    )
    return replace(case, configurations=configurations)


def _at_least(bound: float) -> Holds:
    return lambda probability, _: probability >= bound


def _at_most(bound: float) -> Holds:
    return lambda probability, _: probability <= bound


def _never_less(chain: int) -> Holds:
    """Return a check that no probability falls within chains of `chain` consecutive cases."""
    return lambda probability, _: (
        np.diff(probability.reshape(-1, chain), axis=1, prepend=-1.0) >= -SAME
    ).ravel()


def _equal_in_fours(probability: Floats, _: float) -> NDArray[np.bool_]:
    """Return whether each case has the probability of the first of its four consecutive cases."""
    by_group = probability.reshape(-1, 4)
    return np.asarray(np.abs(by_group - by_group[:, :1]) <= SAME).ravel()


def _plain_checks(draw: np.random.Generator) -> Iterator[BehaviouralCheck]:
    tight = tuple(_centre_runs(case) for case in _draw_unchanged_cases(draw, (0.003,), (0, 8)))
    twice = tuple(case.worsen_targets(1) for case in tight)
    yield BehaviouralCheck("twice as slow with tight samples is at least 0.99", _at_least(0.99), twice)
    small = tuple(case.worsen_targets(share) for case in tight for share in (0.2, 0.1, 0.07))
    yield BehaviouralCheck("20, 10 and 7 % worse with 0.3 % noise are at least 0.95", _at_least(0.95), small)
    same = tuple(
        replace(case, description=f"identical sides, {case.description}", configurations=identical)
        for case in _draw_unchanged_cases(draw, (0.003, 0.1), (0, 8))
        if (identical := tuple((b, b.copy(), h) for b, _, h in case.configurations))
    )
    yield BehaviouralCheck("identical sides are at most 0.02", _at_most(0.02), same)
    better = tuple(case.worsen_targets(1 / (1 + gain) - 1) for case in tight for gain in (0.03, 0.5))
    yield BehaviouralCheck("improvements are at most 0.02", _at_most(0.02), better)


def _order_checks(draw: np.random.Generator) -> Iterator[BehaviouralCheck]:
    chains = _draw_unchanged_cases(draw, (0.001, 0.01, 0.03, 0.1), (0, 10))
    cases = tuple(
        member for case in chains for member in (case, *(case.worsen_targets(share) for share in _WORSE))
    )
    yield BehaviouralCheck("worse by more is never less probable", _never_less(1 + len(_WORSE)), cases)
    repeated = tuple(
        case.change_all_samples(partial(np.tile, reps=times), f"{case.description}, each {times} times")
        for start in _draw_unchanged_cases(draw, (0.01, 0.03), (0,))
        for case in [_centre_runs(start).worsen_targets(0.2)]
        for times in (1, 2, 4)
    )
    yield BehaviouralCheck("more samples of the same shift never make it less sure", _never_less(3), repeated)


def _invariance_checks(draw: np.random.Generator) -> Iterator[BehaviouralCheck]:
    cases: list[Case] = []
    for case in _draw_unchanged_cases(draw, (0.01, 0.1), (0, 8)):
        worsened = case.worsen_targets(0.08)
        change, name = worsened.change_all_samples, worsened.description
        reverse = change(lambda samples: samples[::-1].copy(), f"samples in reverse order, {name}")
        scaled = change(lambda samples: samples * 1024.0, f"another unit, {name}")
        copied = replace(
            worsened,
            description=f"a copied configuration, {name}",
            configurations=(*worsened.configurations, worsened.configurations[0]),
        )
        cases += [worsened, reverse, scaled, copied]
    rule = "order of samples, unit and copied configurations change nothing"
    yield BehaviouralCheck(rule, _equal_in_fours, tuple(cases))


def _verdict_checks(draw: np.random.Generator) -> Iterator[BehaviouralCheck]:
    passing, failing = [], []
    for better in _DIRECTIONS:
        ten = _centre_runs(draw_unchanged(draw, 0.01, 10, better=better))
        outlier = ten.change_targets(
            lambda samples: np.append(samples[1:], samples[0] * 1.5), "one outlier in ten"
        )
        modes = np.array([100.0, 100.4, 99.7, 100.1, 99.9, 120.0, 120.3, 119.6, 120.2, 119.8])
        two = Case("two modes", better, ((modes, modes * 1.001, ()),))
        whole = np.array([20.0, 20.0, 21.0, 20.0, 21.0, 20.0])
        ties = Case("whole milliseconds with ties", better, ((whole, whole[::-1].copy(), ()),))
        three = _centre_runs(draw_unchanged(draw, 0.01, 3, better=better))
        passing += [outlier, two, ties, three]
        failing += [case.worsen_targets(0.4) for case in (outlier, two, three)]
        factor = 1.3 if better == "lower" else 1 / 1.3
        failing.append(replace(ties, configurations=((whole, np.round(whole * factor), ()),)))
    yield BehaviouralCheck("an unchanged level passes", lambda p, threshold: p < threshold, tuple(passing))
    yield BehaviouralCheck("a plain regression fails", lambda p, threshold: p >= threshold, tuple(failing))
