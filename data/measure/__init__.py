"""Measuring: programs, counters, journals, and what a person sees meanwhile."""
