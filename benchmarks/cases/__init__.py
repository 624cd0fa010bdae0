"""The verdicts on people's labels that are wrong, one by one, with a picture of each."""
