"""A table in fragments: cut so that a method can anonymize each separately, and the results can be joined."""
