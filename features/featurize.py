"""Stage featurize: ``python -m features.featurize FAMILY...``."""

from data.stage import run_stage
from features.plugins import family_plugin

if __name__ == "__main__":
    run_stage("featurize", lambda family: family_plugin(family).featurize)
