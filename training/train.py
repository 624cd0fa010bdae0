"""Stage train: ``python -m training.train FAMILY...``."""

from data.stage import run_stage
from training.plugins import family_plugin

if __name__ == "__main__":
    run_stage("train", lambda family: family_plugin(family).train)
