"""Logistic regression that keeps coefficients of similar features together."""
