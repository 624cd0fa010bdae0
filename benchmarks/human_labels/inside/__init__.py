"""Scripts that run inside the opponents' environments: series come in, change points go out."""
