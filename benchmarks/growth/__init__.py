"""What training costs every family where there is ten and a hundred times as much to learn from."""
