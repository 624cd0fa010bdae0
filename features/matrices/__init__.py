"""From matrices of raw metrics to vectors."""
