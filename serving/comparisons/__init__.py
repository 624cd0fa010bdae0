"""Answers about comparisons of two results."""
