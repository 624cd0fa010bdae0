"""Few labels and doubtful ones: what to label first, what to start from, what to look at again."""
