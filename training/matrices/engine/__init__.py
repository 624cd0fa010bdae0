"""The comparative analysis engine."""
