"""Estimators of impact."""
