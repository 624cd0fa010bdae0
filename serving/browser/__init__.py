"""What a person sees of a server in a browser."""
