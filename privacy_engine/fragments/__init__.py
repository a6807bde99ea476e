"""A table in fragments: cut so that a method can anonymize each by itself, and the results join."""
