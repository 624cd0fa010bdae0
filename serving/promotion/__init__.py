"""Commands on which version of a model answers: promote, roll back, trace."""
