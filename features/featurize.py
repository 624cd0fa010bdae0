"""Stage featurize: ``python -m features.featurize FAMILY``."""

from data.stage import run_family

if __name__ == "__main__":
    run_family("featurize", "features")
