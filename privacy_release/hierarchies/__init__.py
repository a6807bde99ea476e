"""Hierarchies inferred from a column, held against it, and drawn: for the curator, being made of records."""
