"""Stage featurize: ``python -m features.featurize FAMILY...``."""

from data.stage import run
from features.supply import supply

if __name__ == "__main__":
    run("featurize", lambda family: supply(family).featurize)
