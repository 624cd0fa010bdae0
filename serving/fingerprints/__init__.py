"""Answers about fingerprints."""
