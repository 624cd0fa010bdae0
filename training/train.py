"""Stage train: ``python -m training.train FAMILY...``."""

from data.stage import run
from training.supply import supply

if __name__ == "__main__":
    run("train", lambda family: supply(family).train)
