"""Stage promote: ``python -m training.promote FAMILY...``."""

from data.stage import run_stage
from training.plugins import family_plugin

if __name__ == "__main__":
    run_stage("promote", lambda family: family_plugin(family).promote)
