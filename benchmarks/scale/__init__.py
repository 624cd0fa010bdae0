"""Matrices larger than memory: what a vector costs, in time and in memory."""
