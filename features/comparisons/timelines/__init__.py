"""What the whole history of an operation shows that no single comparison does."""
