"""Training for the model family ``corun``: models of the impact of co-runners."""

from training.plugins import TrainingPlugin, deferred_call

_TRUSTED = (
    "training.corun.estimators.contention.ContentionRegressor",
    "training.corun.estimators.pressure.PressureRegressor",
    "training.corun.estimators.smooth.SmoothRegressor",
)
PLUGIN = TrainingPlugin(
    tune=deferred_call("training.corun.stages:tune_stage"),
    train=deferred_call("training.corun.stages:train_stage"),
    evaluate=deferred_call("training.corun.stages:evaluate_stage"),
    promote=deferred_call("training.corun.promote:promote_stage"),
    out_of_fold=deferred_call("training.corun.promote:out_of_fold_source"),
    trusted=_TRUSTED,
)
