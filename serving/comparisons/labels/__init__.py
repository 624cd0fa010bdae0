"""What to label, what was labelled by whom, and which labels to look at again."""
