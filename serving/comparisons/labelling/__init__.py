"""The pages on which people compare two results and say what they think of them."""
