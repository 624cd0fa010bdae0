"""Timelines: the results of one machine over many versions, judged, as one page."""
