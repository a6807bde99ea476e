"""Features of a table, kept or dropped as a whole, and their value for a random forest."""
