"""Which rankings of profiles are trusted: those with one cause, and those with none."""
