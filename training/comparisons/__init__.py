"""Training for the model family ``comparisons``: models that judge two results."""

from training.supply import TrainingSupply, lazily

_FAMILY = "training.comparisons.family:bound"
SUPPLY = TrainingSupply(
    tune=lazily("training.comparisons.tune:tune", _FAMILY),
    train=lazily("training.comparisons.train:train", _FAMILY),
    evaluate=lazily("training.comparisons.evaluate:evaluate", _FAMILY),
    promote=lazily("training.comparisons.promote:promote", _FAMILY),
    unseen=lazily("training.comparisons.promote:unseen"),
)
