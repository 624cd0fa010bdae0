"""Measurements of comparisons of two results."""
