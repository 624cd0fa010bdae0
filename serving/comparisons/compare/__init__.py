"""Comparison of two sides of one or several runs, with confirmation runs and output for CI."""
