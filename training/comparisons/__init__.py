"""From vectors of comparisons of two results to models."""
