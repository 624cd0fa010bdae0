"""How fast foreign data become tables, and in how much memory."""
