"""What two states of the project differ in, told to people."""
