"""Engines that learn from matrices larger than memory."""
