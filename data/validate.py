"""Stage validate: ``python -m data.validate FAMILY...``."""

from data.families import family_plugin
from data.stage import run_stage

if __name__ == "__main__":
    run_stage("validate", lambda family: family_plugin(family).validate)
