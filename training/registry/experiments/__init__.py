"""Two states of the project beside each other: commits, experiments, the working tree, registered models."""
