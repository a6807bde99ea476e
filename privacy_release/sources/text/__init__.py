"""Direct identifiers in text: their forms, and the search for them in a table."""
