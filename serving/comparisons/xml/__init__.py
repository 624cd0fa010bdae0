"""XML in the layout of seed 000, figure 6.1."""
