"""Stage evaluate: ``python -m training.evaluate FAMILY...``."""

from data.stage import run
from training.supply import supply

if __name__ == "__main__":
    run("evaluate", lambda family: supply(family).evaluate)
