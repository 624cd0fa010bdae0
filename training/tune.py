"""Stage tune: ``python -m training.tune FAMILY...``."""

from data.stage import run_stage
from training.plugins import family_plugin

if __name__ == "__main__":
    run_stage("tune", lambda family: family_plugin(family).tune)
