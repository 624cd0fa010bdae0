"""What predictions are worth, and from where on a verdict falls."""
