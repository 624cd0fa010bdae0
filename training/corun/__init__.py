"""Training for the model family ``corun``: models of the impact of co-runners."""

from training.supply import TrainingSupply, lazily

_TRUSTED = (
    "training.corun.estimators.contention.ContentionRegressor",
    "training.corun.estimators.pressure.PressureRegressor",
    "training.corun.estimators.smooth.SmoothRegressor",
)
SUPPLY = TrainingSupply(
    tune=lazily("training.corun.stages:tune_stage"),
    train=lazily("training.corun.stages:train_stage"),
    evaluate=lazily("training.corun.stages:evaluate_stage"),
    promote=lazily("training.corun.promote:promote_stage"),
    unseen=lazily("training.corun.promote:unseen"),
    trusted=_TRUSTED,
)
