"""Direct identifiers in text: the forms that they have, and the look through a table for them."""
