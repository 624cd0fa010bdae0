"""Migrations of the database of labels, run by alembic."""
