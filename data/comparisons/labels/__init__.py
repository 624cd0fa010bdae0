"""Labels by several people: their votes, how reliable each is, and what they agree on."""
