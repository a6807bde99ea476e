"""What is kept of the people of each release besides their classes: marks of their values, and registers."""
