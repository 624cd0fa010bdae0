"""Measurements of fingerprints."""
