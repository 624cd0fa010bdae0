"""Stage evaluate: ``python -m training.evaluate FAMILY...``."""

from data.stage import run_stage
from training.plugins import family_plugin

if __name__ == "__main__":
    run_stage("evaluate", lambda family: family_plugin(family).evaluate)
