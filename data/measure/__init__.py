"""Measuring programs: child processes, counters, journals and progress on the screen."""
