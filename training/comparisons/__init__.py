"""Training for the model family ``comparisons``: models that judge two results."""

from training.plugins import TrainingPlugin, deferred_call

_FAMILY = "training.comparisons.family:bound"
PLUGIN = TrainingPlugin(
    tune=deferred_call("training.comparisons.tune:tune", _FAMILY),
    train=deferred_call("training.comparisons.train:train", _FAMILY),
    evaluate=deferred_call("training.comparisons.evaluate:evaluate", _FAMILY),
    promote=deferred_call("training.comparisons.promote:promote", _FAMILY),
    out_of_fold=deferred_call("training.comparisons.promote:out_of_fold_source"),
)
