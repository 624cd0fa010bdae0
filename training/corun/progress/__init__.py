"""Impact without training: fixed work means that the same instructions are retired, alone and together."""
