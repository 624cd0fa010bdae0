"""The store of labels that people give: a table that only grows, in SQLite or PostgreSQL."""
