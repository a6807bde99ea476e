"""Features of a table, kept or dropped as a whole, and what each is worth to a random forest."""
