"""Measuring comparisons: builds, runs, and references of what really changed."""
