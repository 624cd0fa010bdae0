"""The addresses at which labels are given and read."""
