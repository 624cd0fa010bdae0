"""Scores of predictions, and decision thresholds."""
