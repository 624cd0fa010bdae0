"""Speed and accuracy beside peers; each module prints a table and writes it under docs/results/."""
