"""Speed and accuracy compared with other tools; each module writes a page under docs/results/."""
