"""Training of models from vectors, their evaluation and their registration."""
