"""Stage validate: ``python -m data.validate FAMILY...``."""

from data.stage import run
from data.supply import supply

if __name__ == "__main__":
    run("validate", lambda family: supply(family).validate)
