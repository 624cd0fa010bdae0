"""Timelines: the results of one machine over many versions, judged, on one page."""
