"""Impact while a task runs: what is sampled, what is made of it, and how it settles."""
