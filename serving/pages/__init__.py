"""What pages and tables of every family are made of."""
