"""Training for the model family ``fingerprints``: profiles of applications, and forecasts."""

from training.plugins import TrainingPlugin, deferred_call

PLUGIN = TrainingPlugin(
    profile=deferred_call("training.fingerprints.stages:profile_stage"),
    evaluate=deferred_call("training.fingerprints.stages:evaluate_stage"),
    promote=deferred_call("training.fingerprints.stages:promote_stage"),
    out_of_fold=deferred_call("training.fingerprints.stages:out_of_fold_source"),
)
