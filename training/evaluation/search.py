"""A search over trials, which goes on where it was interrupted; what is suggested is the sampler's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from training.evaluation.trials import NUMBER, Direction, KeptTrials, TrialLog

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


@dataclass(frozen=True)
class Search:
    """How to search.

    Attributes
    ----------
    direction : "maximize" or "minimize"
    trials : int
    first : sequence of mapping
        Parameters that the first trials try.
    sampler : callable
        Returns who suggests the parameters of the trial of that number.
    pruner : BasePruner or None
        Optuna's default if None.
    log : TrialLog or None
        Where finished trials are kept, so that an interrupted search goes on; in memory if None.
    """

    direction: Direction
    trials: int
    first: Sequence[Mapping[str, Any]]
    sampler: Callable[[int], BaseSampler]
    pruner: BasePruner | None = None
    log: TrialLog | None = None

    def run(self, value: Callable[[Trial], float | None]) -> Study:
        """Run or finish the search; `value` says what a trial is worth, or None if it is pruned."""
        if self.log is None:
            return self._run(value, None)
        with self.log.opened(self.direction) as log:
            return self._run(value, log)

    def _run(self, value: Callable[[Trial], float | None], log: KeptTrials | None) -> Study:
        import optuna
        from optuna.trial import TrialState

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # the log takes each trial once it is finished: every line of it waits for the disk
        study = optuna.create_study(direction=self.direction, pruner=self.pruner)
        done = [] if log is None else log.finished()
        study.add_trials(done)
        for params in self.first[len(done) :]:
            study.enqueue_trial(dict(params))
        for number in range(len(done), self.trials):
            study.sampler = self.sampler(number)
            trial = study.ask()
            found = value(trial)
            trial.set_user_attr(NUMBER, number)
            told = study.tell(trial, found, TrialState.PRUNED if found is None else None)
            if log is not None:
                log.add(told)
        return study


def drawn(seed: int, startup: int) -> BaseSampler:
    """Return a sampler that draws at random in so many trials, and learns from them in the others."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup)
