"""How good a model is by the number of labels, their order, and what it starts from."""
