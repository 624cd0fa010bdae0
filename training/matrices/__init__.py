"""From vectors of matrices of raw metrics to models."""
