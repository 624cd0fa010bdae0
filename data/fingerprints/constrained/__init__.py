"""Machines made of one: the same fingerprint and programs under constraints that take something away."""
