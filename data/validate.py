"""Stage validate: ``python -m data.validate FAMILY...``."""

from data.families import supply
from data.stage import run

if __name__ == "__main__":
    run("validate", lambda family: supply(family).validate)
