"""Measurements of co-runs."""
