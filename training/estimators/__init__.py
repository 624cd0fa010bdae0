"""Estimators that several model families use."""
