"""Stage promote: ``python -m training.promote FAMILY...``."""

from data.stage import run
from training.supply import supply

if __name__ == "__main__":
    run("promote", lambda family: supply(family).promote)
