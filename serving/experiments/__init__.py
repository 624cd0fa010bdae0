"""Differences of two states of the project, as text, page or JSON."""
