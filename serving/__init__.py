"""Models answer."""
