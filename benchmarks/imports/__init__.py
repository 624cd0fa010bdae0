"""Speed and memory of importing other tools' data."""
