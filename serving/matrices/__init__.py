"""Answers about matrices of raw metrics."""
