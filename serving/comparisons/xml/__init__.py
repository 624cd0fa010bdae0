"""XML in the layout of the scheduler thesis, figure 6.1."""
