"""What progress makes of simulated and of shipped runs."""
