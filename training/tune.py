"""Stage tune: ``python -m training.tune FAMILY...``."""

from data.stage import run
from training.supply import supply

if __name__ == "__main__":
    run("tune", lambda family: supply(family).tune)
