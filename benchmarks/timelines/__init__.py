"""How long it takes to make timelines."""
