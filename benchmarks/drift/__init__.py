"""False alarms between runs of one build, and what they cost in regressions found."""
