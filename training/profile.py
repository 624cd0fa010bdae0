"""Stage profile: ``python -m training.profile FAMILY``."""

from data.stage import run_family

if __name__ == "__main__":
    run_family("profile", "training")
