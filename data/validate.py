"""Stage validate: ``python -m data.validate FAMILY``."""

from data.stage import run_family

if __name__ == "__main__":
    run_family("validate", "data")
