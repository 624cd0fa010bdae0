"""Charts, tables and templates that the reports of all families share."""
