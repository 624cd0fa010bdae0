"""Measurements come in: readers of formats, collectors, schemas, the label store."""
