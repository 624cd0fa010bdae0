"""What was learned on some, asked about others: campaigns, causes, CPU models, devices that are held out."""
