"""Timelines: results of many versions, selected by rules (seed 000, chapter 5)."""
