"""Stage profile: ``python -m training.profile FAMILY...``."""

from data.stage import run_stage
from training.plugins import family_plugin

if __name__ == "__main__":
    run_stage("profile", lambda family: family_plugin(family).profile)
