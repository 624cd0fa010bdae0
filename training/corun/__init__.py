"""From vectors of co-runs to models."""

from training.supply import TrainingSupply, UnseenSupply


def _tune() -> None:
    from training.corun.stages import tune_stage

    tune_stage()


def _train() -> None:
    from training.corun.stages import train_stage

    train_stage()


def _evaluate() -> None:
    from training.corun.stages import evaluate_stage

    evaluate_stage()


def _promote() -> None:
    from training.corun.promote import promote_stage

    promote_stage()


def _unseen() -> UnseenSupply:
    from training.corun.promote import UNSEEN

    return UNSEEN


_TRUSTED = (
    "training.corun.estimators.contention.ContentionRegressor",
    "training.corun.estimators.pressure.PressureRegressor",
    "training.corun.estimators.smooth.SmoothRegressor",
)
SUPPLY = TrainingSupply(
    tune=_tune, train=_train, evaluate=_evaluate, promote=_promote, trusted=_TRUSTED, unseen=_unseen
)
