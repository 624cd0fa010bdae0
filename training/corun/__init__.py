"""From vectors of co-runs to models."""
