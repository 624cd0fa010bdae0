"""Vectors become models."""
