"""Benchmarks of perfjudge: each writes pages of docs/results.

``pages/pages.yaml`` has the command of each page, what it needs and how long it takes.
"""
