"""Comparisons and their verdicts in the layout of seed 000, figure 6.1, and what perfjudge adds to it."""
