"""What whole runs differ by, though nothing was changed: the clock, heat, neighbours, where memory lies."""
