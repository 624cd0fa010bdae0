"""What is promised of verdicts: told in words and numbers, asked for by options and requests, drawn."""
