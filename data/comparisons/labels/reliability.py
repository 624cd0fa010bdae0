"""How reliable people are, and how probable a fail is by their votes: the model of Dawid and Skene.

Source: A. P. Dawid, A. M. Skene, Maximum likelihood estimation of observer error-rates using the EM
algorithm, Applied Statistics 28 (1979); two classes with priors as of V. C. Raykar et al., Learning from
crowds, JMLR 11 (2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.comparisons.labels.votes import Votes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """What is believed before anybody has voted, as votes seen already.

    Attributes
    ----------
    right, wrong : float
        Of every person on fails, and likewise on passes. A person with few votes stays near their share; it
        also keeps the two verdicts from trading places.
    """

    right: float = 4.0
    wrong: float = 1.0


@dataclass(frozen=True)
class Reliability:
    """What the votes say of people and comparisons.

    Attributes
    ----------
    sensitivity, specificity : ndarray of shape (n_people,)
        The share of fails that they call fail, and of passes that they call pass.
    prevalence : float
        The share of fails.
    posterior : ndarray of shape (n_comparisons,)
        The probability of fail.
    """

    sensitivity: Floats
    specificity: Floats
    prevalence: float
    posterior: Floats


#: The posterior has settled when none of it moves by more.
_SETTLED, _MOST_ROUNDS = 1e-7, 500
#: Shares stay this far from 0 and 1.
_EDGE = 1e-9


def dawid_skene(votes: Votes, prior: Prior | None = None) -> Reliability:
    """Estimate by expectation maximisation, from the share of votes for fail on.

    Parameters
    ----------
    votes : Votes
        One at least.
    prior : Prior, optional
    """
    prior = prior or Prior()
    passes, fails = votes.counts
    posterior = fails / (passes + fails)
    for _ in range(_MOST_ROUNDS):
        found = _maximised(votes, posterior, prior)
        moved = np.abs(found.posterior - posterior).max()
        posterior = found.posterior
        if moved < _SETTLED:
            break
    return found


def _maximised(votes: Votes, posterior: Floats, prior: Prior) -> Reliability:
    """Take one step: what people are if comparisons are so, and what comparisons are then."""
    weight = posterior[votes.comparison]
    sensitivity = _share(votes, weight, votes.fail, prior)
    specificity = _share(votes, 1 - weight, ~votes.fail, prior)
    prevalence = float(np.clip(posterior.mean(), _EDGE, 1 - _EDGE))
    likely_fail = np.where(votes.fail, sensitivity[votes.person], 1 - sensitivity[votes.person])
    likely_pass = np.where(votes.fail, 1 - specificity[votes.person], specificity[votes.person])
    evidence = np.log(likely_fail) - np.log(likely_pass)
    odds = np.bincount(votes.comparison, evidence, minlength=len(posterior))
    odds += np.log(prevalence) - np.log1p(-prevalence)
    return Reliability(sensitivity, specificity, prevalence, 1 / (1 + np.exp(-odds)))


def _share(votes: Votes, weight: Floats, right: NDArray[np.bool_], prior: Prior) -> Floats:
    """Return by person the weighted share of votes that are right."""
    n = len(votes.people)
    hits = np.bincount(votes.person, weight * right, minlength=n) + prior.right
    all_of_them = np.bincount(votes.person, weight, minlength=n) + prior.right + prior.wrong
    return np.asarray(np.clip(hits / all_of_them, _EDGE, 1 - _EDGE))
