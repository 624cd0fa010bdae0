"""What was learned on some, asked about others: campaigns, causes, CPU models and devices that are held out."""
