"""From co-runs to vectors."""
