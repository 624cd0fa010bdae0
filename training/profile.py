"""Stage profile: ``python -m training.profile FAMILY...``."""

from data.stage import run
from training.supply import supply

if __name__ == "__main__":
    run("profile", lambda family: supply(family).profile)
