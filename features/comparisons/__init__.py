"""From comparisons of two results to vectors."""
