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
        from optuna.trial import TrialState

        study = self._study()
        if not study.trials:
            for params in self.first:
                study.enqueue_trial(dict(params))
        for number in range(len(_finished(study)), self.trials):
            study.sampler = self.sampler(number)
            trial = study.ask()
            found = value(trial)
            study.tell(trial, found, TrialState.PRUNED if found is None else None)
        return study

    def _study(self) -> Study:
        """Open the study with its finished trials, or begin it."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if self.log is None:
            return self._create(optuna.storages.InMemoryStorage())
        self.log.parent.mkdir(parents=True, exist_ok=True)
        study = self._opened(self.log)
        finished = _finished(study)
        if len(finished) < len(study.trials):
            # an interrupted trial keeps its number; without it the others are numbered as if there were none
            self.log.unlink()
            study = self._opened(self.log)
            study.add_trials(finished)
        return study

    def _opened(self, log: Path) -> Study:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        try:
            return self._create(JournalStorage(JournalFileBackend(str(log))))
        except (ValueError, KeyError):  # cut off in the middle of a line
            log.unlink()
            return self._create(JournalStorage(JournalFileBackend(str(log))))

    def _create(self, storage: Any) -> Study:
        import optuna

        return optuna.create_study(
            storage=storage,
            study_name="search",
            load_if_exists=True,
            direction=self.direction,
            pruner=self.pruner,
        )


def _finished(study: Study) -> list[Any]:
    from optuna.trial import TrialState

    return study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))


def drawn(seed: int, startup: int) -> BaseSampler:
    """Return a sampler that draws at random in so many trials, and learns from them in the others."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup)
