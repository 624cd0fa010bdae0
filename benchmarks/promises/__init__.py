"""Are promises kept? Random splits by whole operations, each with a model and cuts of its own."""
