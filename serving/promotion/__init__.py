"""Commands for the registered model versions: promote, roll back, trace."""
