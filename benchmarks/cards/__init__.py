"""Model cards: what each family's figures say of its models, and what they don't."""
