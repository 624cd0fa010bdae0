"""A search over trials, which goes on where it was interrupted; what is suggested is the sampler's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
    log : Path or None
        Where finished trials are kept, so that an interrupted search goes on; in memory if None.
    """

    direction: Literal["maximize", "minimize"]
    trials: int
    first: Sequence[Mapping[str, Any]]
    sampler: Callable[[int], BaseSampler]
    pruner: BasePruner | None = None
    log: Path | None = None

    def run(self, value: Callable[[Trial], float | None]) -> Study:
        """Run or finish the search; `value` says what a trial is worth, or None if it is pruned."""
        import optuna
        from optuna.trial import TrialState

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # the log takes each trial once it is finished: every line of it waits for the disk
        study, log = self._study(optuna.storages.InMemoryStorage()), self._opened()
        ended = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
        done = [] if log is None else log.get_trials(states=ended)
        study.add_trials(done)
        for params in self.first[len(done) :]:
            study.enqueue_trial(dict(params))
        for number in range(len(done), self.trials):
            study.sampler = self.sampler(number)
            trial = study.ask()
            found = value(trial)
            told = study.tell(trial, found, TrialState.PRUNED if found is None else None)
            if log is not None:
                log.add_trial(told)
        return study

    def _opened(self) -> Study | None:
        """Open the log, or begin it; one that was cut off in the middle of a line is begun anew."""
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        if self.log is None:
            return None
        self.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._study(JournalStorage(JournalFileBackend(str(self.log))))
        except (ValueError, KeyError):
            self.log.unlink()
            return self._study(JournalStorage(JournalFileBackend(str(self.log))))

    def _study(self, storage: Any) -> Study:
        import optuna

        return optuna.create_study(
            storage=storage,
            study_name="search",
            load_if_exists=True,
            direction=self.direction,
            pruner=self.pruner,
        )


def drawn(seed: int, startup: int) -> BaseSampler:
    """Return a sampler that draws at random in so many trials, and learns from them in the others."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup)
