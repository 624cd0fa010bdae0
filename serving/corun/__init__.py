"""Answers about co-runs."""
