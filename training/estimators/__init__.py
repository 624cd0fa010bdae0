"""Estimators that more than one family uses."""
