"""Migrations, by their numbers."""
