"""Scripts that run in the environments of the reference tools: they read series and write change points."""
