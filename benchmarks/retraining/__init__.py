"""How long it takes until new labels are learned from."""
