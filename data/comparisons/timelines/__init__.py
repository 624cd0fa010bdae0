"""Timelines: results of many versions, selected by rules (the scheduler thesis, chapter 5)."""
