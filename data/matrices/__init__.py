"""Measurements of matrices of raw metrics."""
