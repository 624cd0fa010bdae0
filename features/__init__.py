"""Measurements become vectors."""
