"""Feature vectors from measurements, one package per model family."""
