"""Stage promote: ``python -m training.promote FAMILY...``."""

from data.stage import run_stage
from training.plugins import family_plugin
from training.registry.champions import import_mlflow

if __name__ == "__main__":
    run_stage("promote", lambda family: family_plugin(family).promote, import_mlflow)
